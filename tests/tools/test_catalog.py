"""Tests for the catalog of shipped tools and their collections."""

import importlib
import pkgutil

import pytest

import agentkit
from agentkit import tools
from agentkit.decisions import SafetyLevel
from agentkit.errors import UnknownTool
from agentkit.tooling.tool import Tool
from agentkit.tools.catalog import all_tools, default_tools, named
from agentkit.tools.core import core_tools
from agentkit.tools.human import finish_tool

SHIPPED = {
    name: value
    for found in pkgutil.walk_packages(tools.__path__, "agentkit.tools.")
    for name, value in vars(importlib.import_module(found.name)).items()
    if isinstance(value, Tool)
}


@pytest.mark.for_each("name", sorted(SHIPPED))
def test_every_tool_is_in_the_catalog(name):
    """Every tool is in the catalog and exported by agentkit, or the import error says where it is."""
    shipped = SHIPPED[name]
    assert shipped is finish_tool or shipped.name in all_tools, "Name it in agentkit/tools/catalog.py"
    if name not in agentkit.__all__:
        with pytest.raises(ImportError, match=f"Write: from agentkit.* import {name}"):
            getattr(agentkit, name)


def test_order_of_core_tools():
    """The core tools are date, calculator, string length and JSON, in this order."""
    names = [tool.name for tool in core_tools]
    assert names == ["get_current_datetime", "calculator", "string_length", "parse_json"]


def test_core_tools_only_compute():
    """Every core tool only computes from its arguments."""
    assert {tool.level for tool in core_tools} == {SafetyLevel.SAFE}


def test_collections_are_selected_by_name():
    """Collections and tools are selected by name, each tool once, in the order of the names."""
    chosen = named(["calculator", "core", "calculator"])
    assert [tool.name for tool in chosen] == ["calculator", "get_current_datetime", "string_length", "parse_json"]


def test_unknown_tool_error_suggests_a_name():
    """An unknown collection or tool raises an error with the closest name."""
    with pytest.raises(UnknownTool, match="calculator"):
        named(["calculater"])


def test_default_tools_start_with_the_core():
    """The default tools start with the core tools."""
    assert [tool.name for tool in default_tools][: len(core_tools)] == [tool.name for tool in core_tools]

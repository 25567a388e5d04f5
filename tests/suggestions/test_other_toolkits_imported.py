"""Is whoever imports a name that agentkit itself does not have told where it is, or what it is called here?"""

from importlib import import_module
from importlib.util import find_spec

import pytest

import agentkit
from agentkit import default_tools
from agentkit.suggestions.other_toolkits import FOREIGN, HOMES


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_name_that_is_elsewhere_says_where(name):
    """A name that stands in another module is there, is not in agentkit itself, and the error says where it is."""
    assert hasattr(import_module(HOMES[name]), name)
    with pytest.raises(ImportError, match=f"^{name} is in {HOMES[name]}. Write: from {HOMES[name]} import {name}$"):
        getattr(agentkit, name)


@pytest.mark.parametrize(("name", "home"), [("edit_file_tool", "files"), ("finish_tool", "human")])
def test_the_module_of_a_built_in_tool_is_found(name, home):
    """A built-in tool that agentkit does not export is found in its module, without a list of such tools."""
    with pytest.raises(ImportError, match=f"^{name} is in agentkit.tools.{home}. Write: from agentkit.tools.{home} "):
        getattr(agentkit, name)
    assert not hasattr(agentkit, "no_such_tool")


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_name_of_another_toolkit_says_what_to_write(name):
    """What others export under a name that there is not is answered with what to write here."""
    assert name not in agentkit.__all__
    with pytest.raises(ImportError) as raised:
        getattr(agentkit, name)
    assert str(raised.value) == f"agentkit has no {name}. Write: {FOREIGN[name]}"


@pytest.mark.parametrize("tool", default_tools, ids=lambda each: each.name)
def test_the_name_that_a_model_calls_a_tool_says_what_to_import(tool):
    """Whoever imports a shipped tool by the name that models know is told what it is imported as."""
    assert getattr(agentkit, FOREIGN[tool.name]) is tool


@pytest.mark.parametrize("name", sorted({*HOMES, *FOREIGN}))
def test_no_such_name_is_a_module(name):
    """A name with an answer is no module of ours, which could not be imported from agentkit any more."""
    assert find_spec(f"agentkit.{name}") is None


def test_any_other_name_is_just_not_there():
    """A name that nobody knows is missed as in any module."""
    assert not hasattr(agentkit, "nothing_of_the_kind")
    with pytest.raises(AttributeError, match="module 'agentkit' has no attribute 'nothing_of_the_kind'"):
        getattr(agentkit, "nothing_of_" + "the_kind")

"""Modules loaded by imports, and the public names of the package."""

import ast
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import agentkit

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
INIT = ast.parse((ROOT / "agentkit" / "__init__.py").read_text("utf-8"))
HOMES = {name: f"agentkit.{home}" for name, home in agentkit._MODULES.items()}
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "agentkit").rglob("*.py")
    if path.name != "__main__.py"
)
COMMAND_LINE = tuple(module for module in MODULES if module.startswith("agentkit.cli"))


@cache
def named_by(module):
    """Return the modules that a module imports directly and indirectly, without type-checking imports."""
    path = ROOT / module.replace(".", "/")
    path = package if (package := path / "__init__.py").is_file() else path.with_suffix(".py")
    body = ast.parse(path.read_text("utf-8")).body
    named = {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in body if isinstance(node, ast.ImportFrom)}
    return named.union(*map(named_by, named.intersection(MODULES)))


def needs(module, package):
    """Return whether a module cannot be imported without a package."""
    return any(name.partition(".")[0] == package for name in named_by(module))


PROTOCOL = tuple(module for module in MODULES if module.startswith("agentkit.mcp.sdk.") and needs(module, "mcp"))
CONNECTION = tuple(
    module
    for module in MODULES
    if re.match(r"agentkit\.(llm\.(transport|http\.)|mcp\.sdk\.)", module)
    and needs(module, "httpx2")
    and module not in PROTOCOL
)
ALONE = tuple(module for module in MODULES if module not in COMMAND_LINE + CONNECTION + PROTOCOL)
IMPORT_EACH_AND_LIST = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
loaded, loaded_modules = set(sys.modules), {}
for module in sys.argv[2:]:
    try:
        importlib.import_module(module)
    except Exception as error:
        loaded_modules[module] = f"{type(error).__name__}: {error}"
    else:
        loaded_modules[module] = sorted(set(sys.modules) - loaded)
    loaded = set(sys.modules)
print(json.dumps(loaded_modules))
"""
IMPORT_AND_LIST = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
{statement}
loaded = set(sys.modules) - before
import json
print(json.dumps(sorted(loaded)))
"""


def modules_loaded_by(statement, isolation="-IS"):
    """Return the modules that a statement loads in a new interpreter with only the standard library and agentkit.

    Warnings are errors, and the statement must not print anything.
    """
    return json.loads(output_of(IMPORT_AND_LIST.format(statement=statement), isolation))


@cache
def loaded_by_each(modules, isolation="-IS"):
    """Return the modules that each module loads first in one such interpreter, or its error.

    The order does not matter, as the contracts forbid import cycles.
    """
    return json.loads(output_of(IMPORT_EACH_AND_LIST, isolation, *modules))


def output_of(program, isolation, *arguments):
    """Return the output of a program in such an interpreter."""
    command = [sys.executable, isolation, "-W", "error", "-c", program, str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def imports_for_type_checkers():
    """Return the names that `agentkit/__init__.py` imports for type checkers only, with their modules."""
    blocks = [node for node in INIT.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module for node in imports for alias in node.names}


def test_import_loads_few_modules_of_the_standard_library():
    """`import agentkit` loads at most forty modules, all of the standard library."""
    loaded = [name for name in modules_loaded_by("import agentkit") if name.partition(".")[0] != "agentkit"]
    assert {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names} == set()
    assert len(loaded) <= 40


def test_import_loads_only_the_version():
    """`import agentkit` loads no other module of the package except its version."""
    loaded = [name for name in modules_loaded_by("import agentkit") if name.startswith("agentkit.")]
    assert loaded == ["agentkit._version"]


def test_agent_without_tools_imports_no_tools():
    """An agent without tools does not import the built-in tools, the sandbox or the batch module."""
    loaded = modules_loaded_by("from agentkit import Agent, LLM, core_tools")
    organs = Counter(".".join(name.split(".")[:3]) for name in loaded)
    absent = {"agentkit.tools.web", "agentkit.tools.system", "agentkit.tools.catalog", "agentkit.agents.batch"}
    assert absent.isdisjoint(organs)
    assert not any(name.startswith("agentkit.sandbox") for name in loaded)


def test_command_line_loads_commands_lazily():
    """The command is selected before an agent, model, tool or suite is imported."""
    parts = {name.split(".")[1] for name in modules_loaded_by("import agentkit.cli.main", "-I") if "agentkit." in name}
    assert parts == {"_dataclass", "_version", "cli", "errors", "settings", "text_encoding"}


def test_modules_need_only_the_standard_library():
    """Every module can be imported without third-party packages."""
    loaded = loaded_by_each(ALONE)
    assert {module: error for module, error in loaded.items() if not isinstance(error, list)} == {}


def test_command_line_needs_only_click():
    """The command line imports click at the top, and other packages on first use."""
    loaded = loaded_by_each(COMMAND_LINE, isolation="-I")
    packages = {module: {name.partition(".")[0] for name in names} for module, names in loaded.items()}
    known = sys.stdlib_module_names | {"agentkit", "click"}
    assert {module: found for module, found in packages.items() if not found <= known} == {}


@pytest.mark.parametrize("module", CONNECTION)
def test_connection_needs_only_the_http_library(module):
    """A connection module, loaded with the first request, imports the HTTP library and no other package."""
    packages = {name.partition(".")[0] for name in loaded_by_each(("httpx2", *CONNECTION), isolation="-I")[module]}
    assert packages <= sys.stdlib_module_names | {"agentkit"}


@pytest.mark.parametrize("module", PROTOCOL)
def test_protocol_needs_only_its_package(module):
    """The modules for remote MCP servers need only the mcp package."""
    loaded = loaded_by_each(("mcp.client", *PROTOCOL), isolation="-I")
    packages = {name.partition(".")[0] for name in loaded[module]}
    assert packages <= sys.stdlib_module_names | {"agentkit", "mcp", "jwt", "cryptography"}


def test_names_need_only_the_standard_library():
    """Access to every public name imports no other package; packages are imported on first use."""
    loaded = modules_loaded_by("import agentkit\nfor name in agentkit.__all__: getattr(agentkit, name)")
    assert {name.partition(".")[0] for name in loaded} <= sys.stdlib_module_names | {"agentkit"}


def test_star_import_gives_the_public_names():
    """`from agentkit import *` gives every public name."""
    assert "agentkit" in modules_loaded_by("from agentkit import *\nassert SafetyLevel and AgentKitError")


def test_public_names_are_those_of_the_table():
    """The public names are those in the table of modules, sorted alphabetically."""
    assert list(agentkit.__all__) == sorted(HOMES)


def test_names_resolve():
    """Every public name is the object that its module defines."""
    assert [name for name in HOMES if getattr(agentkit, name) is not getattr(import_module(HOMES[name]), name)] == []


def test_type_checker_imports_match_the_table():
    """The imports for type checkers match the table of modules."""
    assert imports_for_type_checkers() == HOMES


def test_dir_lists_the_public_names():
    """`dir(agentkit)` lists every public name once, before and after it is used."""
    assert agentkit.SafetyLevel
    listed = Counter(dir(agentkit))
    assert {name: listed[name] for name in HOMES} == dict.fromkeys(HOMES, 1)


def test_unknown_name_is_an_attribute_error():
    """An unknown name raises an AttributeError that contains it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = agentkit.no_such_name


@pytest.mark.parametrize(
    ("place", "name", "home"),
    [
        ("agentkit", "ToolCallFinished", "agentkit.events"),
        ("agentkit", "Unauthorized", "agentkit.errors"),
        ("agentkit", "Memory", "agentkit.knowledge"),
        ("agentkit", "ScriptedLLM", "agentkit.testing"),
        ("agentkit", "finish_tool", "agentkit.tools.human"),
        ("agentkit.events", "RunFinished", "agentkit"),
    ],
)
def test_import_from_the_wrong_module_names_the_right_one(place, name, home):
    """Importing an event or error from the wrong module raises an error that names the right one."""
    with pytest.raises(ImportError, match=f"Write: from {home} import {name}$"):
        getattr(import_module(place), name)
    assert getattr(import_module(home), name)


def test_unknown_event_is_an_attribute_error():
    """A module of events has no other names."""
    assert not hasattr(agentkit.events, "no_such_name")


def test_no_module_shadows_a_public_name():
    """No module has the same name as a public name."""
    assert {module.name for module in pkgutil.iter_modules(agentkit.__path__)}.isdisjoint(HOMES)


def test_package_is_typed():
    """The package has the marker for type checkers."""
    assert (ROOT / "agentkit" / "py.typed").is_file()


def test_offline_calculation_imports_few_modules(tmp_path):
    """`agentkit 2+2` with the offline model imports no shell parser, HTTP, recorder or engine modules."""
    statement = f"""
import contextlib, io, os
os.environ |= {{"AGENTKIT_PROVIDER": "offline", "AGENTKIT_STATE": {str(tmp_path)!r}, "HOME": {str(tmp_path)!r}}}
from agentkit.cli.main import run
sys.argv = ["agentkit", "-q", "2+2"]
with contextlib.redirect_stdout(io.StringIO()) as said:
    assert run() == 0
assert said.getvalue().strip().endswith("4"), said.getvalue()
"""
    loaded = modules_loaded_by(statement, "-I")
    assert "agentkit.llm.providers.offline.model" in loaded
    heavy = ("agentkit.safety.shell", "agentkit.testing", "agentkit.llm.http", "httpx2", "needle", "tree_sitter")
    assert [name for name in loaded if name.startswith(heavy)] == []

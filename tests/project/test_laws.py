"""Rules about the source that no linter checks: no global changes, no printing, one reader of the environment."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.rule

PACKAGE = Path(__file__).parents[2] / "agentkit"
GLOBAL_CALLS = {
    *("os.chdir", "os.fchdir", "os.putenv", "os.unsetenv", "os.umask", "socket.setdefaulttimeout", "locale.setlocale"),
    *("contextlib.chdir", "contextlib.redirect_stdout", "contextlib.redirect_stderr", "chdir", "redirect_stdout"),
    *("redirect_stderr", "signal.signal", "warnings.simplefilter", "warnings.filterwarnings", "logging.basicConfig"),
    *("sys.setrecursionlimit", "sys.setswitchinterval", "decimal.setcontext", "random.seed"),
}
GLOBAL_TARGETS = ("os.environ", "sys.stdout", "sys.stderr", "sys.stdin", "sys.path", "sys.modules", "builtins.")
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.getenvb"}
STREAMS = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "print(")
READS_THE_ENVIRONMENT = {"settings.py"}
# A worker, or a command that replaces its process, owns the process: nothing else is affected by its changes.
OWN_PROCESS = {
    "cli/approvals.py",
    "cli/chat/repl.py",
    "cli/loaders.py",
    "cli/sessions.py",
    "llm/local_worker.py",
    "llm/providers/offline/worker.py",
    "sandbox/worker.py",
    "sandbox/kernel.py",
    "sandbox/guard/__init__.py",
    "sandbox/guard/replacements.py",
}
# An approver that a developer adds to ask a person at the terminal.
ASKS = {"safety/terminal_approver.py"}
# A console writes to the stream given by the developer, or to standard error.
TELLS = {"tracing/console.py"}
# Untrusted code can import only a fixed list of standard library modules.
# The module that the isolated worker runs is named by its host: `run_module("agentkit.documents.worker", …)`.
IMPORTS_BY_TABLE = {
    "cli/main.py",
    "sandbox/guard/attributes.py",
    "sandbox/guard/module_facades.py",
    "sandbox/guard/replacements.py",
    "sandbox/worker.py",
}


def name_of(path):
    """Return the path below the package, as a test id."""
    return path.relative_to(PACKAGE).as_posix()


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


parse = cache(ast.parse)


@cache
def nodes(source):
    """Return the calls, attributes and subscripts of a module."""
    return [node for node in ast.walk(parse(source)) if isinstance(node, ast.Call | ast.Attribute | ast.Subscript)]


@cache
def text_of(node):
    """Return the source of an expression; for a call, without its arguments."""
    return f"{ast.unparse(node.func)}(" if isinstance(node, ast.Call) else ast.unparse(node)


def expressions(source, kind):
    """Return the source and line of each expression of this kind in a module."""
    return [(text_of(node), node.lineno) for node in nodes(source) if isinstance(node, kind)]


def global_calls(source):
    """Return the calls that change global state."""
    called = expressions(source, ast.Call)
    return [(text, line) for text, line in called if text.partition("(")[0] in GLOBAL_CALLS]


def global_assignments(source):
    """Return the assignments, deletions and updates of global state."""
    targets = [node for node in nodes(source) if not isinstance(node, ast.Call)]
    updates = {f"os.environ.{verb}" for verb in ("update", "pop", "setdefault", "clear", "popitem")}
    return [
        (text_of(node), node.lineno)
        for node in targets
        if text_of(node) in updates
        or (isinstance(node.ctx, ast.Store | ast.Del) and text_of(node).startswith(GLOBAL_TARGETS))
    ]


def environment_reads(source):
    """Return the places that read the environment."""
    return [(text, line) for text, line in expressions(source, ast.Attribute) if text in ENVIRONMENT]


def stream_uses(source):
    """Return the places that print or use the standard streams."""
    used = expressions(source, ast.Attribute | ast.Call)
    return [(text, line) for text, line in used if text.startswith(STREAMS)]


def dynamic_imports(source):
    """Return the imports whose module name is a value, which import-linter cannot see."""
    called = expressions(source, ast.Call)
    names = {"import_module", "importlib.import_module", "__import__"}
    return [(text, line) for text, line in called if text.partition("(")[0] in names]


def import_time_calls(source):
    """Return the bare calls of a module at import time."""
    body = parse(source).body
    return [
        (ast.unparse(node), node.lineno)
        for node in body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    ]


def test_no_global_state_is_changed():
    """No module modifies global state: streams, folder, environment, signals or filters."""
    found = {
        name: global_calls(MODULES[name].read_text("utf-8")) + global_assignments(MODULES[name].read_text("utf-8"))
        for name in sorted(MODULES.keys() - OWN_PROCESS)
    }
    assert {name: each for name, each in found.items() if each} == {}


def test_only_settings_read_the_environment():
    """Only the settings module reads the environment."""
    found = {
        name: environment_reads(MODULES[name].read_text("utf-8"))
        for name in sorted(MODULES.keys() - READS_THE_ENVIRONMENT - OWN_PROCESS)
    }
    assert {name: each for name, each in found.items() if each} == {}


def test_library_never_prints():
    """Only the command line, terminal approvers and consoles write to the terminal."""
    found = {
        name: stream_uses(MODULES[name].read_text("utf-8"))
        for name in sorted(name for name in MODULES.keys() - OWN_PROCESS - ASKS - TELLS if not name.startswith("cli/"))
    }
    assert {name: each for name, each in found.items() if each} == {}


# The lazy names at the root are repeated as imports for type checkers, which the build reads.
def test_every_import_can_be_read():
    """Modules are imported by import statements, so that the contracts cover every import."""
    found = {
        name: dynamic_imports(MODULES[name].read_text("utf-8"))
        for name in sorted(MODULES.keys() - {"__init__.py"} - IMPORTS_BY_TABLE)
    }
    assert {name: each for name, each in found.items() if each} == {}


def test_lines_are_split_by_one_function():
    """Text is only split by `split_lines`, because `str.splitlines` splits at other characters."""
    found = {
        name: [
            at
            for text, at in expressions(MODULES[name].read_text("utf-8"), ast.Attribute)
            if text.endswith(".splitlines")
        ]
        for name in sorted(MODULES)
    }
    assert {name: each for name, each in found.items() if each} == {}


# The command line adds its commands to their group where it is defined.
def test_importing_does_nothing():
    """Importing a module calls no function for its side effects."""
    found = {
        name: import_time_calls(MODULES[name].read_text("utf-8"))
        for name in sorted(name for name in MODULES if not name.startswith("cli/"))
    }
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "source",
    [
        "os.environ['A'] = 'b'",
        "del os.environ['A']",
        "os.environ.update(a='b')",
        "sys.stdout = stream",
        "with contextlib.redirect_stdout(stream): pass",
        "os.chdir('/')",
        "builtins.open = mine",
        "sys.path[:0] = ['/']",
    ],
)
def test_reading_of_global_changes(source):
    """Every form of a write to global state is detected."""
    assert global_calls(source) + global_assignments(source)


NO_ATTRIBUTES = {"Protocol", "Generic", "ABC", "Exception", "object"}  # bases outside the package that set none


def self_attributes(node, context):
    """Return the names and lines of the attributes of `self` that are loaded or stored in a node."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, context)]
    return {(each.attr, each.lineno) for each in found if isinstance(each.value, ast.Name) and each.value.id == "self"}


@cache
def declared_names(node):
    """Return the names that a class declares in its body or constructor, or reads from `self`."""
    names = {name for name, _ in self_attributes(node, ast.Load)}
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names |= {each.name}
            names |= {name for name, _ in self_attributes(each, ast.Store)} if each.name == "__init__" else set()
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            names |= {
                part.id for part in ast.walk(each) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }
    return names


def stray_attributes(sources):
    """Return the attributes that a method assigns, and neither its class nor a base of it declares or reads.

    Classes with a base from another package are left out, because that base can declare the attribute.
    """
    trees = [parse(source) for source in sources]
    classes = {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def lineage(name):
        bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in classes[name].bases]
        return [
            name,
            *(each for base in bases for each in (lineage(base) if base in classes and base != name else [base])),
        ]

    found = []
    for name, node in classes.items():
        family = [each for each in lineage(name) if each not in NO_ATTRIBUTES]
        if all(each in classes for each in family):
            known = set().union(*(declared_names(classes[each]) for each in family))
            found += [
                (name, attribute, line)
                for attribute, line in self_attributes(node, ast.Store)
                if attribute not in known
            ]
    return found


def test_assigned_attributes_are_declared():
    """Every attribute that a method assigns is declared or read by its class or a base."""
    assert stray_attributes([path.read_text("utf-8") for path in MODULES.values()]) == []


@pytest.mark.for_each(
    ("source", "found"),
    [
        ("class A:\n x = 0\nclass B(A):\n def f(self):\n  self.x = self.y = 1", [("B", "y", 5)]),
        ("class A:\n def __init__(self):\n  self.x = 0\n def f(self):\n  self.x, self.z = 1, 2", [("A", "z", 5)]),
        ("class A(Generic[T]):\n def f(self):\n  self.x = 1\n  return self.x", []),
        ("class A(other.B):\n def f(self):\n  self.x = 1", []),
    ],
)
def test_stray_attributes_are_found(source, found):
    """An assignment is found if only the attribute's class could declare it, and it does not."""
    assert stray_attributes([source]) == found


DOCUMENTS = [PACKAGE.parent / "CONTRIBUTING.md", *sorted((PACKAGE.parent / "docs").glob("decisions/*.md"))]
DOCUMENTS += [PACKAGE.parent / "docs" / "architecture.md"]
OTHER_NAMES = {
    "int_or_str",
    "deps_type",
    "main_content",
    "agentkit.KIND",
}  # examples of input, and names in other packages
SNAKE_CASE = re.compile("_?[a-z]+(?:_[a-z0-9]+)+|_[a-z]{3,}")
REFERENCE = re.compile(r"(?<!`)`((?:[a-zA-Z_]\w*\.)*[a-zA-Z_]\w*(?:\(\))?|[\w/]+\.(?:py|toml|txt))`(?!`)")


@cache
def prose_and_names(path):
    """Return the comments and docstrings of a module, and the names in the rest of its source."""
    prose, names = [], set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("r").startswith('"""')
        if token.type == tokenize.COMMENT or is_docstring:
            prose.append(token.string)
        elif token.type in {tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}:
            names.update(re.findall(r"\w+", token.string))
    return "\n".join(prose), names


def is_in_package(name):
    """Return whether a dotted name is a module or folder of the package, or consists of names in a module of it."""
    parts = name.split(".")[1:]
    for length in range(len(parts), -1, -1):
        place = PACKAGE.joinpath(*parts[:length])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.exists():
                return set(parts[length:]) <= prose_and_names(path)[1]
    return False


def dangling(prose, names, files):
    """Return the references in backticks to names and files that do not exist.

    Checked are names in snake case, dotted names in this package, names with `()`, names after "see", and files.
    """
    found = []
    for match in REFERENCE.finditer(prose):
        name, before = match[1].removesuffix("()"), prose[: match.start()]
        if name.endswith((".py", ".toml", ".txt")):
            exists = any(f"/{file}".endswith(f"/{name}") for file in files)
        else:
            is_snake = any(map(SNAKE_CASE.fullmatch, name.split(".")))
            is_plain = name == match[1] and not is_snake and not before.endswith("see ")
            is_known = is_in_package(name) if name.startswith("agentkit.") else set(name.split(".")) <= names
            exists = is_known or name in names or (is_plain and not name.startswith("agentkit."))
        found += [] if exists else [match[1]]
    return found


def test_references_in_prose_exist():
    """Names in comments, docstrings and the developer documentation exist, and so do the files in the latter."""
    root = PACKAGE.parent
    tops = [path for top in ("agentkit", "tests", "docs", "examples") for path in (root / top).rglob("*.*")]
    files = [path.relative_to(root).as_posix() for path in tops]
    names = OTHER_NAMES.union(*(re.split(r"[/.]", file) for file in files))
    for path in (root / "tests").rglob("*.py"):
        names.update(re.findall(r"\w+", path.read_text("utf-8")) if path != Path(__file__) else ())
    modules = {name: prose_and_names(path) for name, path in MODULES.items()}
    names = names.union(*(each for _, each in modules.values()))
    found = {path.name: dangling(path.read_text("utf-8"), names, files) for path in DOCUMENTS}
    for name, (prose, _) in modules.items():  # the file names in modules are examples of input
        found[name] = [each for each in dangling(prose, names, files) if not each.endswith((".py", ".toml", ".txt"))]
    assert {name: each for name, each in found.items() if each} == {}


def test_dangling_references_are_found():
    """Each kind of reference to something that does not exist is found."""
    prose = "`gone_name` `agentkit.gone.old` `old()` see `old`, `gone.py`, `a/old.py`"
    prose += ", `here.py`, `is_here`, `word`, `agentkit.errors.ToolError`"
    expected = ["gone_name", "agentkit.gone.old", "old()", "old", "gone.py", "a/old.py"]
    assert dangling(prose, {"is_here"}, ["x/here.py"]) == expected

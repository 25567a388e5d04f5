"""Prints the test files that cover the changes since a commit, for `make test-changed`.

A changed module selects its mirror tests and the mirror tests of the modules that import it. A changed test file
selects itself, a changed conftest.py or data file its folder, and any other file the tests of the project.
"""

import ast
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"


def main(since: str) -> None:
    """Print the test files, one per line."""
    graph = grimp.build_graph("agentkit")
    paths = changed_paths(since)
    modules = {name for path in paths if (name := module_name(path)) in graph.modules}
    importers = {importer for name in modules for importer in graph.find_modules_that_directly_import(name)}
    selected = {test for name in modules for test in mirror_tests(name)}
    selected |= {test for name in importers for test in named_tests(name)}
    selected |= {test for path in paths for test in tests_of_file(path)}
    selected |= {test for test in TESTS.rglob("test_*.py") if imported_modules(test) & modules}
    print("\n".join(sorted(test.relative_to(ROOT).as_posix() for test in selected if test.is_file())))


def changed_paths(since: str) -> list[Path]:
    """The files that differ from the merge base of HEAD and `since`, and the untracked files."""
    base = git("merge-base", since, "HEAD")[0]
    names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in names]


def git(*words: str) -> list[str]:
    """Run a git command and return the lines of its output."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.splitlines()


def module_name(path: Path) -> str:
    """The dotted name of a module, such as agentkit.llm.client."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def mirror_tests(module: str) -> list[Path]:
    """The test files of a module: those with its name, otherwise all of its mirror folder."""
    folder = TESTS.joinpath(*module.split(".")[1:])
    return named_tests(module) or [*folder.glob("test_*.py")] or [*folder.parent.glob("test_*.py")]


def named_tests(module: str) -> list[Path]:
    """The test files with the name of a module, in its mirror folder."""
    *folders, name = module.split(".")
    folder = TESTS.joinpath(*folders[1:])
    return [*folder.glob(f"test_{name}.py"), *folder.glob(f"test_{name}_*.py")]


def tests_of_file(path: Path) -> list[Path]:
    """The test files that a file outside of the package's modules selects."""
    if path.is_relative_to(TESTS):
        return [path] if path.name.startswith("test_") else [*path.parent.rglob("test_*.py")]
    if path.is_relative_to(ROOT / "agentkit"):
        return [] if path.suffix == ".py" else mirror_tests(module_name(path))
    return [*(TESTS / "project").glob("test_*.py")]


def imported_modules(path: Path) -> set[str]:
    """The modules and names that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "main")

"""Mutation testing: changes one thing in each of a sample of functions, and prints the mutants that no test kills.

Each mutant runs in a copy of the tree with the tests of its mirror folder, starting with the tests named after the
module. `make mutation MUTATION="--functions 100 --seed 7"` samples 100 functions. With `--record FILE` each outcome is
written to a file, and an interrupted run continues.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = Callable[[ast.AST], None]

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
UNTESTABLE = ("agentkit/sandbox/worker.py", "agentkit/sandbox/rpc_guest.py", "agentkit/sandbox/kernel/")
"""Modules without coverage data; their tests are slow and need certain kernel features."""


@dataclass(frozen=True)
class Mutant:
    """A changed module: its path, the changed function, the line, a description of the change, and the new source."""

    path: Path
    function: str
    line: int
    change: str
    source: str

    def __str__(self) -> str:
        """One line with the location and the change."""
        return f"{self.path}:{self.line} {self.function}: {self.change}"


def main() -> None:
    """Run the sample. Exits with 1 if the share of killed mutants is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=100, help="size of the sample")
    parser.add_argument("--seed", type=int, default=7, help="seed of the sample")
    parser.add_argument("--only", default="", help="only functions whose path:name contains this text")
    parser.add_argument("--slice", default="1/1", help="2/5 runs the second fifth of the sample")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of a test that is not slow")
    parser.add_argument("--quick", action="store_true", help="leave out the slow tests")
    parser.add_argument("--record", type=Path, help="a file of outcomes: read first, and extended after each mutant")
    parser.add_argument("--demand", type=float, default=0.95, help="the least share of killed mutants")
    options = parser.parse_args()
    part, parts = map(int, options.slice.split("/"))
    mutants = sample(options.functions, options.seed, options.only)[part - 1 :: parts]
    known = options.record.read_text("utf-8").splitlines() if options.record and options.record.exists() else []
    survivors = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = copied_tree(Path(folder))
        for mutant in mutants:
            line = next((line for line in known if f" {mutant}" in line), "")
            if not line:
                line = f"{outcome(mutant, tree, options.seconds, is_quick=options.quick)} {mutant}"
                print(line, flush=True)
                if options.record:
                    with options.record.open("a", encoding="utf-8") as record:
                        record.write(line + "\n")
            if line.startswith("SURVIVED"):
                survivors.append(mutant)
    killed = len(mutants) - len(survivors)
    print(f"{killed} of {len(mutants)} mutants killed", *survivors, sep="\n")
    sys.exit(killed < options.demand * len(mutants))


def sample(size: int, seed: int, only: str) -> list[Mutant]:
    """One mutant for each of `size` functions, selected by the seed."""
    chance = random.Random(seed)
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "agentkit").rglob("*.py"))]
    chosen = [path for path in paths if not path.as_posix().startswith(UNTESTABLE)]
    trees = {path: ast.parse((ROOT / path).read_text("utf-8")) for path in chosen}
    places = [
        (path, number)
        for path, tree in trees.items()
        for number, function in enumerate(functions(tree))
        if only in f"{path.as_posix()}:{function.name}"
    ]
    chance.shuffle(places)
    found = (mutant for path, number in places if (mutant := mutant_of(path, trees[path], number, chance)))
    return [mutant for mutant, _ in zip(found, range(size), strict=False)]


def functions(tree: ast.Module) -> list[Function]:
    """The functions of a module, in the order of `ast.walk`."""
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def mutant_of(path: Path, tree: ast.Module, number: int, chance: random.Random) -> Mutant | None:
    """A module with one random change in one of its functions; None for a function without possible changes."""
    changes = list(changes_of(functions(tree)[number]))
    if not changes:
        return None
    chosen = chance.randrange(len(changes))
    line, words, _ = changes[chosen]
    changed = copy.deepcopy(tree)
    function = functions(changed)[number]
    _, _, apply = list(changes_of(function))[chosen]
    apply()
    return Mutant(path, function.name, line, words, ast.unparse(ast.fix_missing_locations(changed)))


def changes_of(function: Function) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """The possible changes of a function: line, description, and the function that applies the change."""
    body = function.body[ast.get_docstring(function) is not None :]
    unevaluated = {
        part for node in ast.walk(function) if isinstance(node, ast.AnnAssign) for part in ast.walk(node.annotation)
    }
    for statement in body:
        for node in ast.walk(statement):
            if node not in unevaluated:
                yield from changes_of_node(node)
    for block in blocks_of(function):
        for index, statement in enumerate(block):
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Raise) and not is_docstring(statement):
                words = f"without `{ast.unparse(statement).splitlines()[0][:80]}`"
                yield statement.lineno, words, lambda block=block, index=index: block.__setitem__(index, ast.Pass())


def changes_of_node(node: ast.AST) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """The possible changes of one expression or statement: operators, constants and conditions."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARED:
            new = COMPARED[type(operator)]()
            yield node.lineno, f"`{ast.unparse(node)}` with {type(new).__name__}", lambda: node.ops.__setitem__(0, new)
        case ast.BinOp(op=operator) if type(operator) in CALCULATED:
            new_operator = CALCULATED[type(operator)]()
            words = f"`{ast.unparse(node)[:80]}` with {type(new_operator).__name__}"
            yield node.lineno, words, lambda: setattr(node, "op", new_operator)
        case ast.BoolOp(op=operator):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            words = f"`{ast.unparse(node)[:80]}` with {type(other).__name__}"
            yield node.lineno, words, lambda: setattr(node, "op", other)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            negated = ast.UnaryOp(ast.Not(), test)
            yield node.lineno, f"not `{ast.unparse(test)[:80]}`", lambda: setattr(node, "test", negated)
        case ast.Constant(value=bool() as value):
            yield node.lineno, f"{value} reversed", lambda: setattr(node, "value", not value)
        case ast.Constant(value=int() | float() as value):
            yield node.lineno, f"{value} plus 1", lambda: setattr(node, "value", value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield (
                node.lineno,
                f"None for `{ast.unparse(value)[:80]}`",
                lambda: setattr(node, "value", ast.Constant(None)),
            )


def blocks_of(function: Function) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a function."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring or another constant."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def copied_tree(folder: Path) -> Path:
    """Copy the tracked and untracked files of the repository to a folder."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in done.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def outcome(mutant: Mutant, tree: Path, seconds: int, *, is_quick: bool) -> str:
    """The outcome of a mutant with the tests of its mirror folder: killed, or SURVIVED."""
    target = tree / mutant.path
    original = target.read_text("utf-8")
    target.write_text(mutant.source, "utf-8")
    try:
        runs = list(test_runs(mutant.path, tree, seconds))[: -1 if is_quick else None]
        return next((found for arguments in runs if (found := notice(arguments, tree))), "SURVIVED")
    finally:
        target.write_text(original, "utf-8")


def test_runs(path: Path, tree: Path, seconds: int) -> Iterator[list[str]]:
    """The arguments of the test runs for a module.

    In this order: the module's own tests, the tests in its folder that import it, the rest of the folder, and the slow
    tests.
    """
    *folders, name = path.with_suffix("").parts[1:]
    folder = tree.joinpath("tests", *folders)
    patterns = (f"test_{name}.py", f"test_{name}_*.py")
    named = sorted({test for place in (folder, folder.parent) for pattern in patterns for test in place.glob(pattern)})
    while not any(folder.glob("test_*.py")):
        folder = folder.parent
    rest = sorted(set(folder.glob("test_*.py")) - set(named))
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    importers = [test for test in rest if module in test.read_text("utf-8")]
    rest = [test for test in rest if test not in importers]
    quick = ["-m", "not rule and not slow", "-o", f"timeout={seconds}"]
    slow = ["-m", "slow and not rule"]
    for options, tests in ((quick, named), (quick, importers), (quick, rest), (slow, named + importers + rest)):
        if tests:
            yield [*options, *(test.relative_to(tree).as_posix() for test in tests)]


def notice(arguments: list[str], tree: Path) -> str:
    """Run tests in the copied tree: returns "killed" with the first failing test, or an empty text if they pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with tempfile.TemporaryFile() as output:  # a pipe would be kept open by processes that a failed test leaves behind
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            code = process.wait(3600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            code = process.wait()
        output.seek(0)
        found = re.search(r"^(?:FAILED|ERROR) (\S+)", output.read().decode(errors="replace"), re.MULTILINE)
    if code in {0, 5}:
        return ""
    return f"killed by {found[1]}:" if found else f"killed (exit code {code}):"


if __name__ == "__main__":
    main()

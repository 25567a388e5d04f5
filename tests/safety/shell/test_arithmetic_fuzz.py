"""Tests with generated commands: an allowed command never runs code from the contents or name of a file.

Bash evaluates the value of a variable as code in arithmetic, in subscripts and in several builtins. The grammar pairs
the ways to assign a text to a variable with the places where bash evaluates it. All allowed commands and some of the
others are run in the sandbox, each with a separate marker file that the planted code creates. An allowed command must
not create its marker. Many of the others must, or the test would prove nothing.

`python tests/safety/shell/test_arithmetic_fuzz.py COMMANDS [SEED]` runs it with more commands.
"""

import random
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentkit.safety.shell import judge_command
from agentkit.sandbox.process import Confinement, command_boundary, run_command
from agentkit.sandbox.watchdog import ProcessLimits

pytestmark = pytest.mark.slow

GRAMMAR = tomllib.loads(Path(__file__).with_name("arithmetic_grammar.toml").read_text("utf-8"))
CONFINEMENT = Confinement(
    isolation="required", limits=ProcessLimits(timeout_seconds=300, processes=512, memory_bytes=2**30)
)
BATCH = 1_000
RUNNER = """
ulimit -t 1
number=0
while IFS= read -r -d '' folder && IFS= read -r -d '' command; do
  ( cd "$HERE/$folder"; export MARK="../marks/$number"; set --; eval "$command" ) </dev/null >/dev/null 2>&1
  number=$((number + 1))
done < "$HERE/commands"
"""


@dataclass
class Figures:
    """The outcomes of the commands; `escaped` ones were allowed and ran planted code."""

    commands: int
    allowed: int
    ran: int
    escaped: list[str]
    contexts: set[str]


def _put(text: str, **names: str) -> str:
    """Return the text with whole-word names replaced."""
    return re.sub(rf"(?<!\w)({'|'.join(names)})(?!\w)", lambda match: names[match[1]], text)


def _wrapped(outer: str, inner: str) -> str:
    """Return the outer text with the inner text instead of @, as one quoted word if it is quoted there."""
    return outer.replace('"@"', shlex.quote(inner)) if '"@"' in outer else outer.replace("@", inner)


def generated(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield contexts, each equally often, with the commands made of them."""
    choose = random.Random(seed)
    for number in range(count):
        context = GRAMMAR["contexts"][number % len(GRAMMAR["contexts"])]
        source = choose.choice(GRAMMAR["sources"] if choose.random() < 0.8 else GRAMMAR["harmless"])
        match = re.match(r"(?:(\w+)\|)?(?:(\$[^|]+)\|)?(.*)", source, re.DOTALL)
        assert match
        name, dollar, setting = match[1] or "v", match[2] or f"${match[1] or 'v'}", match[3]
        names = {"N": name if name.isidentifier() else dollar, "D": dollar}
        parts = [_put(choose.choice(GRAMMAR["resets"]), **names)] if choose.random() < 0.25 else []
        for link in range(choose.choice((0, 0, 0, 1, 1, 2))):
            parts.append(_put(choose.choice(GRAMMAR["links"]), w=f"w{link}", **names))
            names = {"N": f"w{link}", "D": f"$w{link}"}
        parts.append(_wrapped(choose.choice(GRAMMAR["wrappers"]), _put(context, **names)))
        before = choose.choice(GRAMMAR["befores"]).replace("@", ":")
        yield context, before + _wrapped(setting, "; ".join(parts))


def _prepare(folder: Path, commands: list[str], choose: random.Random) -> None:
    (folder / "marks").mkdir(parents=True)
    shapes = GRAMMAR["shapes"]
    for index, shape in enumerate(shapes):
        here = folder / str(index)
        here.mkdir()
        (here / "idx.txt").write_text(shape + "\n")
        (here / "y.txt").write_text("1\n")
        (here / "z.txt").write_text("1\n2\n3\n")
        (here / shape).touch()
    rows = "".join(f"{choose.randrange(len(shapes))}\0{command}\0" for command in commands)
    (folder / "commands").write_text(rows)
    (folder / "runner.sh").write_text(RUNNER)


def fuzz(count: int, seed: int, folder: Path, *, every: int) -> Figures:
    """Judge this many commands; with a folder, run all allowed ones, and some of the others for comparison."""
    choose, figures = random.Random(seed), Figures(0, 0, 0, [], set())
    batch: list[tuple[str, str, bool]] = []
    for number, (context, command) in enumerate(generated(count, seed), 1):
        allowed = judge_command(command, workspace="/workspace").allowed
        figures.commands += 1
        figures.allowed += allowed
        if allowed or number % every == 0:
            batch.append((context, command, allowed))
        if len(batch) == BATCH or number == count:
            _run(batch, folder / str(number), choose, figures)
            batch = []
    return figures


def _run(batch: list[tuple[str, str, bool]], place: Path, choose: random.Random, figures: Figures) -> None:
    """Run commands in the sandbox, and return those that left their mark."""
    _prepare(place, [command for _, command, _ in batch], choose)
    outcome = run_command('HERE="$PWD" bash runner.sh', str(place), CONFINEMENT)
    assert outcome.status == "ok", outcome
    for mark in (place / "marks").iterdir():
        context, command, allowed = batch[int(mark.name)]
        figures.ran += 1
        figures.contexts.add(context)
        figures.escaped += [command] if allowed else []


@pytest.mark.skipif(not command_boundary(CONFINEMENT).is_strong, reason="this machine has no strong boundary")
def test_no_allowed_command_runs_code_from_a_file(tmp_path):
    """Of two thousand commands, no allowed one runs the planted code, and hundreds of the others do."""
    figures = fuzz(2_000, 22, tmp_path, every=2)
    assert figures.escaped == []
    assert figures.allowed > 150
    assert figures.ran > 300
    assert len(figures.contexts) > 150


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]] or [100_000]
    with tempfile.TemporaryDirectory() as scratch:
        result = fuzz(arguments[0], arguments[1] if len(arguments) > 1 else 22, Path(scratch), every=10)
    sys.stdout.write("".join(command + "\n" for command in result.escaped))
    sys.stdout.write(
        f"{result.commands:,} commands, {result.allowed:,} allowed, {result.ran:,} ran planted code, in "
        f"{len(result.contexts)} of {len(GRAMMAR['contexts'])} contexts; allowed and ran: {len(result.escaped)}\n"
    )
    sys.exit(bool(result.escaped))

"""Commands made from a grammar: what is allowed never runs code that stands in a file or in a file's name.

Bash evaluates the value of a variable as code in arithmetic, in subscripts and in several builtins. The grammar pairs
the ways by which a text comes into a variable with the places where bash evaluates it. All commands are run in the
sandbox, each with a mark of its own that the planted code makes: a command that was allowed must not leave its mark,
and many of those that were not allowed must, or else the test would prove nothing.

`python tests/safety/shell/test_arithmetic_fuzz.py COMMANDS [SEED]` runs it with more commands.
"""

import random
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentkit.sandbox.process import Confinement, ProcessLimits, command_boundary, run_command
from agentkit.safety.shell import judge_command

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
  [ $? = 137 ] && echo "$number"
  number=$((number + 1))
done < "$HERE/commands"
"""


@dataclass
class Figures:
    """What came of the commands; `escaped` were allowed and ran planted code."""

    commands: int
    allowed: int
    ran: int
    escaped: list[str]
    contexts: set[str]


def _substituted(text: str, name: str, dollar: str) -> str:
    """The text with the variable's name for each N and what expands to it for each D that stands alone."""
    out = []
    for index, letter in enumerate(text):
        around = text[index - 1 : index] + text[index + 1 : index + 2]
        alone = letter in "ND" and not any(c.isalnum() or c == "_" for c in around)
        out.append((name if letter == "N" else dollar) if alone else letter)
    return "".join(out)


def _wrapped(outer: str, inner: str) -> str:
    quoted = '"@"' in outer
    if quoted:
        return outer.replace('"@"', shlex.quote(inner))
    return outer.replace("@", inner)


def generated(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Contexts with the commands made of them; each context comes with every source before any comes twice."""
    choose = random.Random(seed)
    for number in range(count):
        context = GRAMMAR["contexts"][number % len(GRAMMAR["contexts"])]
        source = choose.choice(GRAMMAR["sources"] if choose.random() < 0.8 else GRAMMAR["harmless"])
        *named, setting = source.split("|", 2) if source[:1] in "MROB01_" and "|" in source[:14] else [source]
        name = named[0] if named else "v"
        dollar = named[1] if len(named) > 1 else f"${name}"
        name = name if name.isidentifier() else dollar
        links = []
        for _ in range(choose.choice((0, 0, 0, 1, 1, 2))):
            target, _, link = choose.choice(GRAMMAR["links"]).partition("|")
            links.append(_substituted(link, name, dollar))
            target, new = target + str(len(links)), len(links)
            links[-1] = _renamed(links[-1], new)
            name, dollar = target, f"${target}"
        evaluated = _wrapped(choose.choice(GRAMMAR["wrappers"]), _substituted(context, name, dollar))
        before = choose.choice(GRAMMAR["befores"])
        body = "; ".join([*links, evaluated])
        yield context, before.replace("@", ":") + _wrapped(setting, body)


def _renamed(link: str, number: int) -> str:
    """A link whose variable w is told apart from those of other links."""
    out = []
    for index, letter in enumerate(link):
        around = link[index - 1 : index] + link[index + 1 : index + 2]
        alone = letter == "w" and not any(c.isalnum() or c == "_" for c in around)
        out.append(f"w{number}" if alone else letter)
    return "".join(out)


def _prepare(folder: Path, commands: list[str], choose: random.Random) -> None:
    (folder / "marks").mkdir(parents=True)
    shapes = GRAMMAR["shapes"]
    for index, shape in enumerate(shapes):
        here = folder / str(index)
        here.mkdir()
        (here / "idx.txt").write_text(shape + "\n")
        (here / "y.txt").write_text("1\n")
        (here / "z.txt").write_text("1\n2\n3\n")
        name = shape.replace("../", "")
        (here / name).touch()
    rows = "".join(f"{choose.randrange(len(shapes))}\0{command}\0" for command in commands)
    (folder / "commands").write_text(rows)
    (folder / "runner.sh").write_text(RUNNER)


def fuzz(count: int, seed: int, folder: Path) -> Figures:
    """Judge and run this many commands, below a folder."""
    choose, figures = random.Random(seed), Figures(0, 0, 0, [], set())
    made = list(generated(count, seed))
    for start in range(0, count, BATCH):
        batch = made[start : start + BATCH]
        place = folder / str(start)
        _prepare(place, [command for _, command in batch], choose)
        outcome = run_command('HERE="$PWD" bash runner.sh', str(place), CONFINEMENT)
        assert outcome.status == "ok", outcome
        if "-v" in sys.argv:
            print([batch[int(n)][1] for n in outcome.stdout.split() if n.isdigit()], outcome.seconds)
        ran = {int(mark.name) for mark in (place / "marks").iterdir()}
        for number, (context, command) in enumerate(batch):
            allowed = judge_command(command, workspace="/workspace").allowed
            figures.commands += 1
            figures.allowed += allowed
            if number in ran:
                figures.ran += 1
                figures.contexts.add(context)
                figures.escaped += [command] if allowed else []
    return figures


@pytest.mark.skipif(not command_boundary(CONFINEMENT).is_strong, reason="this machine has no strong boundary")
def test_no_allowed_command_runs_code_from_a_file(tmp_path):
    """Of two thousand commands, no allowed one runs the planted code, and hundreds of the others do."""
    figures = fuzz(2_000, 22, tmp_path)
    assert figures.escaped == []
    assert figures.allowed > 150
    assert figures.ran > 600
    assert len(figures.contexts) > 200


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:] if text != "-v"] or [100_000]
    with tempfile.TemporaryDirectory() as scratch:
        result = fuzz(arguments[0], arguments[1] if len(arguments) > 1 else 22, Path(scratch))
    print(*result.escaped, sep="\n")
    print(
        f"{result.commands:,} commands, {result.allowed:,} allowed, {result.ran:,} ran planted code, "
        f"in {len(result.contexts)} of {len(GRAMMAR['contexts'])} contexts; allowed and ran: {len(result.escaped)}"
    )
    sys.exit(bool(result.escaped))

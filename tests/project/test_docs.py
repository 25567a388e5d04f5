"""The code blocks of the documentation run and print what the pages show.

Every Python and sh block of README.md, CONTRIBUTING.md and docs/ runs, in a fresh process in an empty folder.
A block that cannot run states the reason in a comment above it: `<!-- not run: it needs a cluster -->`. A comment above
the block scripts the model, as a JSON list of turns:
`<!-- model: ["It is 408.", {"call": "calculator", "arguments": {"expression": "0.17*2400"}}] -->`. A list inside the
list is one turn with several calls. The output is compared with an `<!-- output: … -->` comment above the block or a
text block below it; `...` matches anything. Python blocks are also type-checked, unless a comment states a reason:
`<!-- not typed: it is wrong on purpose -->`.
"""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click
import pytest

from agentkit.cli.main import cli
from agentkit.testing import FakeServer, call, say

pytestmark = pytest.mark.rule

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
WRITTEN = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != REFERENCE]
PAGES = [*sorted(ROOT.glob("*.md")), *WRITTEN]
PIECE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)$|<!--(?P<comment>.*?)-->",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
RUNNERS = {"python": (sys.executable,), "sh": ("bash", "-eu")}
UNREAD = {"py", "py3", "python3", "pycon", "bash", "shell", "console"}
PASSED_ON = ("COVERAGE_", "LANG", "LC_")


@dataclass(frozen=True)
class Block:
    """A runnable block: its place, language, code, scripted model and expected output."""

    place: str
    language: str
    code: str
    turns: list | None
    output: str | None
    is_typed: bool = True


def pieces_of(text):
    """Return groups of comments and fenced blocks that are separated only by blank space."""
    end, group = 0, []
    for match in PIECE.finditer(text):
        if text[end : match.start()].strip():
            yield group
            group = []
        group.append(match)
        end = match.end()
    yield group


def notes_of(comments):
    """Return the comments above a block, by the word before their colon."""
    parts = (comment.strip().partition(":") for comment in comments)
    return {key.strip(): value.strip() for key, _, value in parts}


def blocks_of(page, text):
    """Return the runnable blocks of a page, in order."""
    for group in pieces_of(text):
        comments = []
        for match, following in pairwise([*group, None]):
            if match["comment"] is not None:
                comments.append(match["comment"])
                continue
            notes, comments = notes_of(comments), []
            if match["language"] in RUNNERS and "not run" not in notes:
                place = f"{page}:{text.count(chr(10), 0, match.start()) + 1}"
                turns = json.loads(notes["model"]) if "model" in notes else None
                shown = following["code"] if following and following["language"] == "text" else None
                output, is_typed = notes.get("output", shown), "not typed" not in notes
                yield Block(place, match["language"], match["code"], turns, output, is_typed)


def turn_of(text):
    """Return a turn of the model as the fake server serves it."""
    if isinstance(text, str):
        return say(text)
    if isinstance(text, list):
        return [turn_of(one) for one in text]
    return call(text["call"], text["arguments"])


def environment_of(folder, server):
    """Return the environment of a block: that of a new user, with the URL of the model."""
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    model = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "a-key"} if server else {}
    return {**passed_on, "PATH": path, "HOME": str(folder), "PYTHONIOENCODING": "utf-8", **model}


def run(block, folder, server):
    """Run a block in an empty folder and return the finished process."""
    script, here = folder / "block", folder / "here"
    script.write_text(block.code, "utf-8")
    here.mkdir()
    return run_in(here, [*RUNNERS[block.language], str(script)], server)


def run_in(here, command, server):
    """Run a command in a folder, with the environment of a new user."""
    return subprocess.run(
        command,
        cwd=here,
        env=environment_of(here, server),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def check(block, folder):
    """Run a block and compare its output with the page; every scripted turn must be used."""
    with FakeServer(*map(turn_of, block.turns)) if block.turns else nullcontext() as server:
        done = run(block, folder, server)
        assert done.returncode == 0, f"{block.place}\n{done.stderr}"
    if block.output is not None:
        want, got = block.output.strip() + "\n", done.stdout.strip() + "\n"
        assert doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS), f"{block.place}\n{got}"


BLOCKS = [block for page in PAGES for block in blocks_of(page.relative_to(ROOT).as_posix(), page.read_text("utf-8"))]


@pytest.mark.slow
def test_blocks_are_typed(tmp_path):
    """The Python blocks of the documentation pass a type check, except for unchecked optional values."""
    typed = [block for block in BLOCKS if block.language == "python" and block.is_typed]
    for block in typed:
        (tmp_path / f"{re.sub(r'[^a-z0-9]+', '_', block.place.lower())}.py").write_text(block.code, "utf-8")
    options = ("--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}", "--disable-error-code=union-attr")
    done = run_in(tmp_path, [sys.executable, "-m", "mypy", *options, "."], None)
    assert (done.returncode, done.stdout.splitlines()[:-1]) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_block_runs(block, tmp_path):
    """Every block of the documentation runs and prints the output that the page shows."""
    check(block, tmp_path)


RECORDING = """
import runpy
from agentkit.testing import record

with record("recorded.cassette"):
    runpy.run_path("program", run_name="__main__")
"""
BY_ITSELF = re.compile(r"\b(record|replay|FakeServer|ScriptedLLM|\w+Executor|Client|spawn_agent_process)\(")
"""Code with a separate recording, a separate model, or processes that are not recorded."""
LOCAL = re.compile(r"\bapprove=|\.changes|\.undo\(|\.write_text\(|workspace=")
"""Code whose output depends on approvals, tools or files, which are missing in a replay."""
ASKING = [block for block in BLOCKS if block.turns and block.language == "python" and not BY_ITSELF.search(block.code)]


@pytest.mark.slow
@pytest.mark.parametrize("block", ASKING, ids=lambda block: block.place)
def test_block_replays(block, tmp_path):
    """The model requests of a block can be recorded, and replayed without model, network and key."""
    here = tmp_path / "here"
    (recording := tmp_path / "recording").mkdir()
    with FakeServer(*map(turn_of, block.turns)) as server:
        (recording / "here").mkdir()
        (recording / "here" / "program").write_text(block.code, "utf-8")
        recorded = run_in(recording / "here", [sys.executable, "-c", RECORDING], server)
    assert recorded.returncode == 0, recorded.stderr
    here.mkdir()
    (here / "program").write_text(block.code, "utf-8")
    command = [sys.executable, "-m", "agentkit", "replay", str(recording / "here" / "recorded.cassette"), "program"]
    replayed = run_in(here, command, None)
    assert (replayed.returncode, replayed.stderr) == (0, ""), f"{block.place}\n{replayed.stderr}"
    if not LOCAL.search(block.code):
        assert replayed.stdout == recorded.stdout


def test_code_blocks_are_recognised():
    """Code blocks start at the margin and are marked python or sh, so that none is skipped because of its spelling."""
    texts = {page.name: page.read_text("utf-8") for page in PAGES}
    indented = {name: re.findall(r"^[ \t>]+(?:```|~~~).*$", text, re.MULTILINE) for name, text in texts.items()}
    assert {name: found for name, found in indented.items() if found} == {}
    languages = {name: {match["language"] for match in PIECE.finditer(text)} for name, text in texts.items()}
    assert {name: found & UNREAD for name, found in languages.items() if found & UNREAD} == {}


def reasons_of(text):
    """Return the reasons of the blocks that are not run."""
    for group in pieces_of(text):
        comments = []
        for match in group:
            if match["comment"] is not None:
                comments.append(match["comment"])
                continue
            notes, comments = notes_of(comments), []
            if match["language"] in RUNNERS and "not run" in notes:
                yield notes["not run"]


def test_skipped_blocks_state_a_reason():
    """A Python or sh block that is not run states the reason in a few words."""
    reasons = [(page.name, reason) for page in PAGES for reason in reasons_of(page.read_text("utf-8"))]
    assert [found for found in reasons if len(found[1].split()) < 3] == []


def command_lines():
    """Return every line of an sh block that calls agentkit, with its page."""
    for page in PAGES:
        for match in PIECE.finditer(page.read_text("utf-8")):
            if match["language"] == "sh":
                for line in match["code"].splitlines():
                    words = shlex.split(line, comments=True)
                    starts = [number for number, word in enumerate(words) if word.rpartition("/")[2] == "agentkit"]
                    yield from ((page.name, tuple(words[start + 1 :])) for start in starts)


def parse_command_line(words):
    """Parse a command line with the commands and options of agentkit; raises click's error for an unknown one."""
    command, arguments, context = cli, list(words), None
    while command is not None:
        context = click.Context(command, parent=context, info_name=command.name)
        if command is cli and arguments and arguments[0] not in cli.list_commands() and arguments[0] != "--version":
            arguments = ["ask", *arguments]
        _, left, _ = command.make_parser(context).parse_args(arguments)
        is_group = isinstance(command, click.Group)
        command, arguments = (command.get_command(None, left[0]), left[1:]) if is_group and left else (None, [])


def test_command_lines_exist(subtests):
    """Every command line on a page uses existing commands and options."""
    for page, words in sorted(set(command_lines())):
        with subtests.test(page=page, words=words):
            parse_command_line(words)


def test_links_lead_to_files():
    """Every link to a file of the project exists."""
    links = [(page, match["target"].partition("#")[0]) for page in PAGES for match in LINK.finditer(page.read_text())]
    local = [(page, page.parent / target) for page, target in links if target and "://" not in target]
    assert [(page.name, path) for page, path in local if not path.exists() and path.parent != REFERENCE] == []


def anchors(page):
    """Return the anchors of a page's headings, as GitHub and Sphinx name them."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_headings():
    """Every link to a section matches a heading."""
    links = [
        (page, *match["target"].split("#"))
        for page in PAGES
        for match in LINK.finditer(page.read_text())
        if "#" in match["target"]
    ]
    local = [
        (page, page.parent / target if target else page, anchor)
        for page, target, anchor in links
        if "://" not in target
    ]
    lost = [
        (page.name, path.name, anchor) for page, path, anchor in local if path.exists() and anchor not in anchors(path)
    ]
    assert lost == []


def test_readme_has_the_test_command():
    """README.md marks the line that installs and tests the project, and `.ci/run` runs it."""
    text = (ROOT / "README.md").read_text("utf-8")
    match = re.search(r"^<!-- test-command -->\n```sh\n(?P<line>.+)\n```$", text, re.MULTILINE)
    assert "pytest" in match["line"]
    assert "test-command" in (ROOT / ".ci" / "run").read_text("utf-8")


PAGE = """
<!-- model: [{"call": "calculator", "arguments": {"expression": "1+1"}}, "It is 2."] -->
<!-- output: It is
2. -->
```python
print("first")
```

A sentence separates them.

```python
print("second")
```
```text
second
```

<!-- not run: it would wait for ever -->
```sh
echo not run
```

```sh
echo "$HOME"
```
"""


def test_reading_of_a_page():
    """A block uses only the comments directly above it and the text block directly below it."""
    first, second, third = blocks_of("page.md", PAGE)
    assert (first.place, first.output, second.output) == ("page.md:5", "It is\n2.", "second\n")
    assert (first.turns[1], second.turns, third.turns) == ("It is 2.", None, None)
    assert (first.language, third.code) == ("python", 'echo "$HOME"\n')
    assert list(reasons_of(PAGE)) == ["it would wait for ever"]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("print(1)", "2"),
        ("raise SystemExit(1)", None),
        ("print('a')\nprint('b')", "a"),
        ("import no_such_module", None),
    ],
)
def test_wrong_block_is_found(code, output, tmp_path):
    """A block that fails or prints other text than shown fails its test."""
    with pytest.raises(AssertionError):
        check(Block("page.md:1", "python", code, None, output), tmp_path)


def test_unused_model_turns_fail(tmp_path):
    """A page with more scripted model turns than its block uses fails."""
    with pytest.raises(AssertionError):
        check(Block("page.md:1", "python", "print(1)", ["Nobody asks."], "1"), tmp_path)


@pytest.mark.parametrize(("output", "code"), [("now: ...", "print('now:', 5)"), (None, "print('whatever')")])
def test_right_block_passes(code, output, tmp_path):
    """Three dots match any text, and a block without expected output may print anything."""
    check(Block("page.md:1", "python", code, None, output), tmp_path)

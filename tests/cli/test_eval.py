"""Tests for `agentkit eval`: running, displaying and comparing suites, and exit codes."""

import fcntl
import json
import os
import pty
import struct
import termios

import pytest
from junitparser import JUnitXml

from agentkit.cli.main import run
from agentkit.cli.terminal import ANSWERED, FAILED, INTERRUPTED, LIMIT, USAGE
from agentkit.evals import Report
from agentkit.testing import FakeServer, fail

SUITE = """
from agentkit import Agent, core_tools
from agentkit.evals import Case, Suite, contains
from agentkit.testing import ScriptedLLM
from answers import ANSWER

suite = Suite("capitals", [Case("Of Vietnam?", "Hanoi", tags=["asia"]), Case("Of France?", "Paris")], contains())
good = Agent("good", llm=ScriptedLLM("Hanoi, Paris", repeat=True))
bad = Agent("bad", llm=ScriptedLLM(ANSWER, repeat=True))
"""

INTERRUPTED_ANSWER = """
import os, signal

def ANSWER(request):
    if "France" in request.messages[-1].content:
        os.kill(os.getpid(), signal.SIGINT)
    return "Hanoi, Paris"
"""


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Run `agentkit eval ...` in a folder with a suite; return stdout, stderr and the exit code."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENTKIT_BASE_URL", "AGENTKIT_PROVIDER", "AGENTKIT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "suite.py").write_text(SUITE)
    (tmp_path / "answers.py").write_text("ANSWER = 'Hanoi'")

    def type_(*words):
        code = run(["eval", *map(str, words)])
        captured = capsys.readouterr()
        return captured.out, captured.err, code

    return type_


def test_suite_is_run(typed):
    """By default, the agents in the suite's file are run, and the table is written to stdout."""
    out, err, code = typed("run", "suite.py")
    assert out.startswith("capitals: 2 cases\n")
    assert "good   2 of 2" in out
    assert "bad    1 of 2" in out
    assert (err, code) == ("", ANSWERED)


def test_reports_are_written(typed, tmp_path):
    """The report is written as JSON, JUnit XML, a page and Markdown; with - the JSON is all of stdout."""
    files = ("-o", "a.json", "--junit", "a.xml", "--html", "a.html", "--markdown", "a.md")
    out, err, code = typed("run", "suite.py", "--agent", "good", *files)
    assert ("good   2 of 2" in out, code) == (True, ANSWERED)
    assert "Written: a.json" in err
    assert Report.read(tmp_path / "a.json").success_rate == 1.0
    assert sum(suite.tests for suite in JUnitXml.fromfile(str(tmp_path / "a.xml"))) == 2
    assert "<svg" in (tmp_path / "a.html").read_text()
    assert "| good | 2 of 2 |" in (tmp_path / "a.md").read_text()
    out, _, _ = typed("run", "suite.py", "--agent", "good", "--json", "--baseline", "a.json")
    assert json.loads(out)["suite"] == "capitals"


def test_threshold(typed):
    """An agent below the threshold is reported on stderr, and the exit code is 1."""
    assert typed("run", "suite.py", "--agent", "good", "--threshold", "1.0")[2] == ANSWERED
    _, err, code = typed("run", "suite.py", "--threshold", "0.9")
    assert (err, code) == ("bad: 50.0 % passed, below the threshold of 90 %.\n", FAILED)


def test_baseline(typed):
    """With --no-broken, a case that fails only against the baseline exits with code 1."""
    typed("run", "suite.py", "--agent", "good", "-o", "good.json")
    typed("run", "suite.py", "--agent", "bad", "-o", "bad.json")
    out, _, code = typed("run", "suite.py", "--agent", "bad", "--baseline", "good.json")
    assert "good -> bad: 0 fixed, 1 broken, of 2 cases" in out
    assert code == ANSWERED
    _, err, code = typed("run", "suite.py", "--agent", "bad", "--baseline", "good.json", "--no-broken")
    assert (err, code) == ("The results are worse than good.json.\n", FAILED)


def test_reports_are_compared(typed):
    """Two reports are compared for all agents or for the named agent."""
    typed("run", "suite.py", "-o", "both.json")
    typed("run", "suite.py", "--agent", "bad", "-o", "bad.json")
    out, _, code = typed("compare", "both.json", "both.json")
    assert (out.count("0 fixed, 0 broken"), code) == (2, ANSWERED)
    assert typed("compare", "both.json", "bad.json", "--agent", "bad")[0].startswith("bad -> bad")
    assert typed("compare", "both.json", "bad.json", "--agent", "bad", "--no-broken")[2] == ANSWERED
    _, err, code = typed("compare", "both.json", "bad.json", "--agent", "good")
    assert "The agent 'good' is not in both reports." in err
    assert code == USAGE


def test_report_is_shown(typed, tmp_path):
    """`show` prints a report again and writes it as an HTML page."""
    shown, _, _ = typed("run", "suite.py", "-o", "a.json")
    out, err, code = typed("show", "a.json", "--html", "page.html")
    assert (out, err, code) == (shown, "Written: page.html\n", ANSWERED)
    assert (tmp_path / "page.html").exists()


def test_limits(typed):
    """Trials not run because of a limit are reported on stderr, and the exit code is 3."""
    _, err, code = typed("run", "suite.py", "--agent", "good", "--limit", "input_tokens=1")
    text = "2 of 2 trials were not run. Another request could exceed the limit of 1 input tokens.\n"
    assert (err, code) == (text, LIMIT)


def test_cost_limit_with_an_unknown_price(typed):
    """With a cost limit, trials of a model with an unknown price are not run, and the reason is shown."""
    _, err, code = typed("run", "suite.py", "--agent", "good", "--limit", "cost=1")
    assert ("2 of 2 trials were not run. The price of the model is unknown" in err, code) == (True, LIMIT)


def test_no_answer_exits_with_1(typed, tmp_path, monkeypatch):
    """If no trial is answered, the exit code is 1."""
    with FakeServer(fail(401, "no"), repeat=True) as server:
        monkeypatch.setenv("AGENTKIT_BASE_URL", server.base_url)
        monkeypatch.setenv("AGENTKIT_MODEL", "m")
        (tmp_path / "bot.txt").write_text("tools: none\n\nAnswer.\n")
        _, err, code = typed("run", "suite.py", "--agent", "bot.txt")
    assert (err, code) == ("No case was answered.\n", FAILED)


def test_case_file_on_several_models(typed, tmp_path, monkeypatch):
    """A case file is run with the named scorers, on each model, with repeats and seeds."""
    (tmp_path / "cases.csv").write_text("prompt,expected\n2+2?,4\n")
    with FakeServer("It is 4.", repeat=True) as server:
        monkeypatch.setenv("AGENTKIT_BASE_URL", server.base_url)
        words = ("-m", "one", "-m", "two", "--repeats", "2", "--seed", "7", "--concurrency", "1")
        out, _, code = typed("run", "cases.csv", "--scorer", "numeric", *words)
        questions = [(request.model, request.json["seed"]) for request in server.requests]
    assert code == ANSWERED
    assert questions == [("one", 7), ("two", 7), ("one", 8), ("two", 8)]
    assert "agentkit on one  2 of 2" in out


def test_agent_from_a_text_file(typed, tmp_path, monkeypatch):
    """An agent from a text file uses its own model, or else the configured one."""
    (tmp_path / "bot.txt").write_text("tools: none\n\nAnswer.\n")
    (tmp_path / "own.txt").write_text("tools: none\nmodel: own\n\nAnswer.\n")
    with FakeServer("Hanoi, Paris", repeat=True) as server:
        monkeypatch.setenv("AGENTKIT_BASE_URL", server.base_url)
        monkeypatch.setenv("AGENTKIT_MODEL", "m")
        out, _, _ = typed("run", "suite.py", "--agent", "bot.txt", "--agent", "own.txt", "--concurrency", "1")
        assert {request.model for request in server.requests} == {"m", "own"}
    assert "bot    2 of 2" in out
    assert "own    2 of 2" in out


def test_untrusted_project_settings_are_reported(typed, tmp_path):
    """Ignored settings of an untrusted project are reported."""
    (tmp_path / "agentkit.toml").write_text('model = "x"\n')
    _, err, code = typed("run", "suite.py", "--agent", "good")
    assert ("is not trusted" in err, code) == (True, ANSWERED)


def test_tags_select_cases(typed):
    """Only the cases with one of the given tags are run."""
    assert "good   1 of 1" in typed("run", "suite.py", "--tag", "asia")[0]
    _, err, code = typed("run", "suite.py", "--tag", "africa")
    assert (err.splitlines(), code) == (["Error: No case of suite.py has the tag africa.", "Its tags are asia."], USAGE)


def test_suite_is_resumed_and_replayed(typed, tmp_path):
    """Trials are stored, recorded, resumed, and replayed without a model."""
    typed("run", "suite.py:suite", "--agent", "good", "--resume", "kept.jsonl", "--record", "tapes")
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 3
    assert typed("run", "suite.py:suite", "--agent", "good", "--resume", "kept.jsonl")[2] == ANSWERED
    out, _, code = typed("run", "suite.py", "--agent", "suite.py:good", "--replay", "tapes")
    assert ("good   2 of 2" in out, code) == (True, ANSWERED)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "nope.py"), "The file 'nope.py' does not exist."),
        (("run", "suite.py:nope"), "There is no Suite 'nope' in suite.py; it has suite."),
        (("run", "suite.py", "--agent", "suite.py"), "has "),
        (("run", "two.py"), "has "),
        (("run", "answers.py"), "There is no Suite in answers.py."),
        (("run", "leaves.py"), "leaves.py, line 2: SystemExit: 3"),
        (("run", "plain.csv", "--tag", "x"), "No case of plain.csv has the tag x."),
        (("run", "suite.py", "--agent", "nope"), "Neither a file nor an agent is named 'nope'."),
        (("run", "suite.py", "--threshold", "nan"), "--threshold takes a share from 0 to 1."),
        (("run", "suite.py", "--replay", "nowhere"), "The folder 'nowhere' of cassettes does not exist."),
        (("run", "suite.py", "--record", "suite.py"), "'suite.py' is a file."),
        (("run", "broken.py"), "broken.py, line 2: NameError: name 'nix' is not defined"),
        (("run", "syntax.py"), "syntax.py, line 1: SyntaxError"),
        (("run", "wrong.py"), "A suite has a name"),
        (("run", "raised.py"), "raised.py, line 2: JSONDecodeError"),
        (("run", "suite.py", "--scorer", "exact"), "--scorer is for files of cases"),
        (("run", "suite.py", "--offline", "-m", "x"), "Use --offline or --model, not both"),
        (("run", "suite.py", "--no-broken"), "--no-broken needs --baseline"),
        (("run", "suite.py", "--limit", "money=1"), "No limit is named 'money'."),
        (("run", "suite.py", "--record", "a", "--replay", "b"), "Use --record or --replay, not both"),
        (("run", "cases.txt"), "Cases are read from"),
        (("compare", "nope.json", "nope.json"), "cannot be read"),
    ],
)
def test_invalid_suite_is_a_usage_error(typed, tmp_path, words, expected):
    """An invalid suite is a usage error with the problem on the first line and the remedy on the next."""
    (tmp_path / "broken.py").write_text("x = 1\nnix\n")
    (tmp_path / "syntax.py").write_text("x =\n")
    (tmp_path / "wrong.py").write_text("from agentkit.evals import Suite\nSuite('', [])\n")
    (tmp_path / "two.py").write_text(f"{SUITE}\nanother = Suite('x', suite.cases, contains())\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "plain.csv").write_text("prompt,expected\nx,y\n")
    (tmp_path / "raised.py").write_text("import json\njson.loads('{')\n")
    _, err, code = typed(*words)
    assert expected in err.splitlines()[0]
    assert len(err.splitlines()) >= 2
    assert "agentkit config show" not in err
    assert code == USAGE


@pytest.mark.parametrize(
    ("text", "name", "expected", "remedy"),
    [
        ("prompt,expected\n,4\n", "a.csv", "a.csv, line 2: the prompt is missing.", "Correct the file"),
        ("prompt\n", "a.csv", "The suite 'a' has no cases", "Correct the file"),
        ('{"question": 1}', "a.jsonl", "a case has no field 'question'.", "Its fields are prompt"),
        ("\xe4", "a.csv", "cannot be read: it is not UTF-8.", "Save it as UTF-8."),
        ("2+2?", "a.txt", "Cases are read from .jsonl and .csv files", "Rename the file."),
        (None, "a.csv", "a.csv cannot be read: No such file or directory.", "Check that the file"),
    ],
)
def test_invalid_case_file_is_a_usage_error(typed, tmp_path, text, name, expected, remedy):
    """An invalid case file is a usage error with a remedy."""
    if text is not None:
        (tmp_path / name).write_text(text, "latin-1")
    _, err, code = typed("run", name)
    what, do = err.splitlines()[:2]
    assert (expected in what, do.startswith(remedy), code) == (True, True, USAGE)


@pytest.mark.parametrize("words", [("show", "{}"), ("compare", "{}", "{}"), ("run", "suite.py", "--baseline", "{}")])
@pytest.mark.parametrize(("text", "free"), [(None, "main.json"), ("hello", "report.json"), ("{}", "report.json")])
def test_invalid_report_is_an_error(typed, tmp_path, words, text, free):
    """A missing or invalid report is an error, and the remedy does not overwrite it."""
    if text is not None:
        (tmp_path / "main.json").write_text(text)
    out, err, code = typed(*(word.format("main.json") for word in words))
    what, do = err.splitlines()
    assert ("main.json" in what, out, code) == (True, "", USAGE)
    assert do == f"Write one with: agentkit eval run SUITE -o {free}"


def test_agents_with_the_same_name(typed, tmp_path):
    """Two agents with the same name are shown under the names used on the command line."""
    (tmp_path / "other.py").write_text(
        "from agentkit import Agent\nfrom agentkit.testing import ScriptedLLM\n"
        "good = Agent('good', llm=ScriptedLLM('no', repeat=True))\n"
    )
    out, _, _ = typed("run", "suite.py", "--agent", "good", "--agent", "other.py:good")
    assert "good           2 of 2" in out
    assert "other.py:good  0 of 2" in out


def test_progress_at_a_terminal(typed, spawn, tmp_path):
    """On a terminal, progress is shown on one line that is cleared at the end."""
    leader, terminal = pty.openpty()
    process = spawn("eval", "run", "suite.py", "--agent", "good", "--concurrency", "1", stderr=terminal, cwd=tmp_path)
    process.communicate(timeout=60)
    os.close(terminal)
    with os.fdopen(leader, "rb", buffering=0) as screen:
        assert screen.read(1_000).startswith(b"\r1 of 2 \r ")


def test_narrow_terminal(typed, spawn, tmp_path):
    """On a narrow terminal, the table has a column for each agent and fits the width."""
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 40, 0, 0))
    process = spawn("eval", "run", "suite.py", stdout=terminal, cwd=tmp_path)
    process.communicate(timeout=60)
    os.close(terminal)
    with os.fdopen(leader, "rb", buffering=0) as screen:
        lines = screen.read(4_000).decode().splitlines()
    assert "agent        good            bad" in lines
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--resume", "kept.jsonl"), "The work so far is stored. Continue with: --resume kept.jsonl"),
        ((), "Nothing was stored. With --resume FILE, each finished trial is stored."),
    ],
)
def test_suite_is_interrupted(typed, spawn, tmp_path, words, text):
    """Ctrl-C ends the suite with exit code 130 and shows how to continue."""
    (tmp_path / "answers.py").write_text(INTERRUPTED_ANSWER)
    process = spawn("eval", "run", "suite.py", "--agent", "bad", "--concurrency", "1", *words, cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert (err.splitlines(), process.returncode) == (["Interrupted.", text], INTERRUPTED)
    if words:
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) >= 2


def test_resume_file_without_trials_is_an_error(typed):
    """--resume with a file that contains no trials is an error with a remedy."""
    _, err, code = typed("run", "suite.py", "--agent", "good", "--resume", "suite.py")
    assert ("suite.py" in err.splitlines()[0], err.splitlines()[1].startswith("Name another file")) == (True, True)
    assert code in (USAGE, FAILED)


def test_function_is_evaluated(typed, tmp_path):
    """A function is named by its file and name, or by its name in the suite's file, and compared like agents."""
    (tmp_path / "pipeline.py").write_text(
        "async def answer(prompt):\n    return 'Hanoi'\n\ndef fail(prompt):\n    1 / 0\n"
    )
    out, _, code = typed("run", "suite.py", "--agent", "pipeline.py:answer", "--agent", "good", "--threshold", "0.5")
    assert ("answer  1 of 2" in out, "good    2 of 2" in out, code) == (True, True, ANSWERED)
    out, _, code = typed("run", "suite.py", "--agent", "pipeline.py:fail")
    assert "fail raised ZeroDivisionError" in out
    assert code == FAILED
    assert typed("run", "suite.py", "--agent", "pipeline.py")[2] == USAGE
    assert "There is no Agent in pipeline.py" in typed("run", "suite.py", "--agent", "pipeline.py:none")[1]
    assert "Did you mean 'answer'?" in typed("run", "suite.py", "--agent", "pipeline.py:answr")[1]
    assert "Did you mean 'good'?" in typed("run", "suite.py", "--agent", "goood")[1]


def test_conversation_in_a_case_file(typed, tmp_path):
    """A case file may contain conversations."""
    (tmp_path / "talk.jsonl").write_text(json.dumps({"prompts": ["Hello", {"prompt": "And?", "expected": "Paris"}]}))
    (tmp_path / "bot.py").write_text(
        "from agentkit import Agent\nfrom agentkit.testing import ScriptedLLM\n"
        "bot = Agent('bot', llm=ScriptedLLM('Hanoi', 'Paris', repeat=True))\n"
    )
    out, _, code = typed("run", "talk.jsonl", "--agent", "bot.py", "--threshold", "1.0")
    assert ("1 of 1" in out, code) == (True, ANSWERED)

"""Tests for `agentkit show`: the display of recorded runs at a terminal and as a page."""

from agentkit.cli.sessions import load_recording
from agentkit.sessions.transcript import CallTranscript, TranscriptStep, build_transcripts
from agentkit.usage import Usage


def test_page_is_written(command, cassette, tmp_path):
    """`--html` writes a page and prints its path."""
    out, err, code = command("show", str(cassette), "--html", str(tmp_path / "page.html"))
    assert (out, code) == ("", 0)
    assert "page.html" in err
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def test_invalid_cassette_is_an_error(command, tmp_path):
    """A missing file or a file that is not a cassette is an error."""
    _, err, code = command("show", str(tmp_path / "none"))
    assert (code, "none does not exist." in err, "Record it first" in err) == (1, True, True)
    (tmp_path / "other").write_text("hello\n")
    assert "not a cassette" in command("show", str(tmp_path / "other"))[1]


def test_unwritable_page_is_an_error(process, cassette, tmp_path):
    """An HTML page in a missing folder is an error without a traceback."""
    _, err, code = process("show", str(cassette), "--html", str(tmp_path / "none" / "page.html"))
    assert code == 1
    assert err.startswith("Error: ")


def test_runs_are_returned_in_order(cassette):
    """Runs are returned in the order they started; events outside of a run form a separate story."""
    helper, attacker, outside, inner = build_transcripts(load_recording(cassette)[1])
    assert [run.agent for run in (helper, outside, inner)] == ["helper", "", "worker"]
    assert [type(step) for step in helper.steps] == [
        TranscriptStep,
        CallTranscript,
        CallTranscript,
        CallTranscript,
        TranscriptStep,
    ]
    assert helper.usage == Usage(2_400, 80, 1_200, requests=2, tariff=helper.responses[0].usage.tariff)
    assert (helper.status, helper.answer, inner.status, outside.status) == ("done", "It is 42.", "interrupted", "")
    assert inner.inside > helper.inside == 0
    assert len(attacker.steps) == 10
    assert [type(step) for step in outside.steps] == [TranscriptStep, TranscriptStep, TranscriptStep, CallTranscript]
    assert (outside.answer, outside.began <= outside.ended) == ("Good.", True)


def test_request_contains_its_new_messages(cassette):
    """A request contains the messages that were not in the previous request."""
    helper, *_ = build_transcripts(load_recording(cassette)[1])
    first, last = helper.steps[0], helper.steps[-1]
    assert [len(first.request.messages), len(first.new)] == [1, 1]
    assert [len(last.request.messages), len(last.new)] == [5, 4]


def test_call_contains_decision_result_and_duration(cassette):
    """A call contains its decision, approval, waiting time, result and duration."""
    helper, *_ = build_transcripts(load_recording(cassette)[1])
    calculator, write, shell = helper.tool_calls
    assert (calculator.seconds, calculator.judgment.rule, calculator.waited) == (1.5, "level", None)
    assert (write.answers[0].answer, write.judgment.verdict, write.waited[1] >= 0) == ("once", "allow", True)
    assert (shell.judgment.verdict, shell.result.ok) == ("deny", False)
    assert write.seconds >= 0


def test_run_is_shown(command, cassette):
    """The prompt, requests, calls, decisions, results, answer, changes and costs of a run are shown."""
    text, err, code = command("show", str(cassette))
    assert (err, code) == ("", 0)
    for line in [
        "> How much is 6*7?",
        "  [image]",
        "        ✓ allow: It only computes. (rule: level)",
        "        → expression: 6*7",
        "          result: 42",
        "        ? a person answered: once",
        "        ✗ deny: It would run what comes from the network. (rule: shell)",
        "        ✗ Command blocked for safety.",
        "          It is 42.",
        "    +new",
        "        > Say hello.",
        "        → text",
    ]:
        assert f"\n{line}" in text, line
    assert "done in" in text
    assert "2,400 tokens in (1,200 cached), 80 out, cost ≈ $" in text
    assert text.splitlines()[1].startswith("3 runs, 5 requests, 6 tool calls, ")


def test_control_characters_are_removed(command, cassette):
    """No control character of a model or tool is written to the terminal."""
    assert {letter for letter in command("show", str(cassette))[0] if not letter.isprintable()} == {"\n"}

"""Does `agentkit show` show what was recorded, so that a person understands it and nothing tricks the terminal?"""

from agentkit.cli.sessions import recorded
from agentkit.sessions.transcript import CallStory, StoryMoment, stories
from agentkit.usage import Usage


def test_a_page_is_written(command, cassette, tmp_path):
    """`--html` writes one page, and says where."""
    out, err, code = command("show", str(cassette), "--html", str(tmp_path / "page.html"))
    assert (out, code) == ("", 0)
    assert "page.html" in err
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def test_what_is_no_cassette_is_told(command, tmp_path):
    """A missing cassette and a file that is not a cassette are errors; the first says how to record one."""
    _, err, code = command("show", str(tmp_path / "none"))
    assert (code, "none does not exist." in err, "Record it first" in err) == (1, True, True)
    (tmp_path / "other").write_text("hello\n")
    assert "not a cassette" in command("show", str(tmp_path / "other"))[1]


def test_a_page_that_cannot_be_written_is_told(process, cassette, tmp_path):
    """A folder that is not there is an error, no traceback."""
    _, err, code = process("show", str(cassette), "--html", str(tmp_path / "none" / "page.html"))
    assert code == 1
    assert err.startswith("Error: ")


def test_runs_are_told_in_the_order_in_which_they_began(cassette):
    """Each run has its prompt, its steps in order, its usage and its end; what no run told of comes by itself."""
    helper, attacker, outside, inner = stories(recorded(cassette)[1])
    assert [run.agent for run in (helper, outside, inner)] == ["helper", "", "worker"]
    assert [type(step) for step in helper.steps] == [StoryMoment, CallStory, CallStory, CallStory, StoryMoment]
    assert helper.usage == Usage(2_400, 80, 1_200, requests=2, tariff=helper.responses[0].usage.tariff)
    assert (helper.status, helper.answer, inner.status, outside.status) == ("done", "It is 42.", "interrupted", "")
    assert inner.inside > helper.inside == 0
    assert len(attacker.steps) == 10
    assert [type(step) for step in outside.steps] == [StoryMoment, StoryMoment, StoryMoment, CallStory]
    assert (outside.answer, outside.began <= outside.ended) == ("Good.", True)


def test_a_request_tells_what_was_new(cassette):
    """Of what a model was sent, the messages that it had not been sent before are told."""
    helper, *_ = stories(recorded(cassette)[1])
    first, last = helper.steps[0], helper.steps[-1]
    assert [len(first.request.messages), len(first.new)] == [1, 1]
    assert [len(last.request.messages), len(last.new)] == [5, 4]


def test_a_call_is_told_from_the_wish_to_the_result(cassette):
    """A call has its judgment, what a person said and after how long, its result and how long it ran."""
    helper, *_ = stories(recorded(cassette)[1])
    calculator, write, shell = helper.tool_calls
    assert (calculator.seconds, calculator.judgment.rule, calculator.waited) == (1.5, "level", None)
    assert (write.answers[0].answer, write.judgment.verdict, write.waited[1] >= 0) == ("once", "allow", True)
    assert (shell.judgment.verdict, shell.result.ok) == ("deny", False)
    assert write.seconds >= 0


def test_a_run_is_shown(command, cassette):
    """Prompt, requests with tokens, calls with decisions, results, the answer, changes and money are there."""
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


def test_nothing_tricks_the_terminal(command, cassette):
    """No control character of a model or a tool reaches the terminal."""
    assert {letter for letter in command("show", str(cassette))[0] if not letter.isprintable()} == {"\n"}

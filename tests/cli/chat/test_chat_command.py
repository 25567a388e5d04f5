"""`agentkit chat` through a pipe: a prompt a line, plain answers, exit codes."""

import json

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, fail

SUM = call("calculator", expression="2+2")
WRITE = call("write_file", path="note.txt", content="hello")


def test_each_piped_line_is_a_prompt(typed_line):
    """Lines that say something are prompts of one conversation; answers go to stdout, tool calls to stderr."""
    with FakeServer(SUM, "It is **4**.", "Four.") as server:
        out, err, code = typed_line("chat", server=server, piped=b"2+2?\n\n  \nIn words?\n")
    assert (out, code) == ("It is **4**.\nFour.\n", 0)
    assert err == '  calculator(expression="2+2") → 4  [allow: safety-level]\n'
    assert [message["role"] for message in server.requests[-1].json["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "user")
    ]
    assert Session.summaries()[0].runs == 2


def test_piped_lines_are_no_commands(typed_line):
    """What is piped in may be anybody's text: a line that looks like a command is a prompt."""
    with FakeServer("ok", "ok") as server:
        assert typed_line("chat", "--no-session", server=server, piped=b"/safety system\n//x\n")[2] == 0
    asked = [request.json["messages"][-1]["content"] for request in server.requests]
    assert asked == ["/safety system", "//x"]
    assert Session.summaries() == []


def test_json_is_a_document_a_line(typed_line):
    """--json prints one document for each prompt, with its tool calls and decisions, and nothing else."""
    with FakeServer(SUM, "4", "5") as server:
        out, err, _ = typed_line("chat", "--json", server=server, piped=b"2+2?\n2+3?\n")
    first, second = map(json.loads, out.splitlines())
    assert (first["output"], second["output"], err) == ("4", "5", "")
    assert first["tool_calls"][0]["decision"]["verdict"] == "allow"


def test_nobody_approves_what_is_asked_through_a_pipe(typed_line, tmp_path):
    """A yes in a pipe is no person's: the call is refused (exit code 4), and the next prompt is answered."""
    with FakeServer(WRITE, "I could not.", "ok") as server:
        out, err, code = typed_line("chat", server=server, piped=b"Write it.\ny\n")
    assert (out, code, list(tmp_path.iterdir())) == ("I could not.\nok\n", 4, [])
    assert "[deny: safety-level]" in err


def test_changes_are_shown_beside_the_answers(typed_line, tmp_path):
    """What a run changed is shown on stderr, as it would be with --dry-run; not in JSON."""
    with FakeServer(WRITE, "Done.", repeat=False) as server:
        out, err, _ = typed_line("chat", "--dry-run", "-y", server=server, piped=b"Write it.\n")
    assert (out, "+hello" in err, list(tmp_path.iterdir())) == ("Done.\n", True, [])
    with FakeServer(WRITE, "Done.") as server:
        out, err, _ = typed_line("chat", "-y", "--json", server=server, piped=b"Write it.\n")
    assert "+hello" not in out + err
    assert (tmp_path / "note.txt").read_text() == "hello"


def test_a_failure_ends_what_is_piped(typed_line):
    """When the provider fails, what comes behind is not asked, and the exit code is 1."""
    with FakeServer(fail(403, "not for you")) as server:
        out, err, code = typed_line("chat", server=server, piped=b"hi\nnever\n")
    assert (out, code, "not for you" in err, len(server.requests)) == ("", 1, True, 1)


def test_a_limit_is_told_and_the_next_prompt_asked(typed_line):
    """A limit is one run's: it is told with exit code 3, and the next line is a run of its own."""
    with FakeServer(SUM, SUM, "So far.", "ok") as server:
        out, err, code = typed_line("chat", "--limit", "tool_calls=1", server=server, piped=b"loop\nhi\n")
    assert (code, out) == (3, "So far.\nok\n")
    assert err.endswith("Allow more with: --limit tool_calls=NUMBER\n")


def test_what_is_no_text_is_told(typed_line):
    """Bytes that are no text are an error in the command line (exit code 2)."""
    with FakeServer() as server:
        assert typed_line("chat", server=server, piped=b"\xff\xfe\n")[1:] == (
            "Error: The piped input is not text.\nPipe text, or name a file: @photo.png, @report.pdf\n",
            2,
        )


def test_no_prompt_is_no_fault(typed_line):
    """An empty pipe asks nothing."""
    with FakeServer() as server:
        assert typed_line("chat", server=server) == ("", "", 0)


def test_what_cannot_work_is_told_before_the_first_prompt(typed_line):
    """No key, unknown tools, flags that contradict each other: exit code 2."""
    out, err, code = typed_line("chat", piped=b"hi\n")
    assert (out, code, err.startswith("Error: No API key found.")) == ("", 2, True)
    with FakeServer() as server:
        assert "No tool is named 'webb'" in typed_line("chat", "-t", "webb", server=server)[1]
    assert "Use --offline or --model, not both" in typed_line("chat", "--offline", "-m", "x")[1]


def test_settings_of_the_project_are_told(typed_line, tmp_path):
    """What a project's file may not say unasked is told, as for a single question."""
    (tmp_path / "agentkit.toml").write_text('instruction = "Obey."\n')
    with FakeServer("ok") as server:
        assert "agentkit config trust" in typed_line("chat", server=server, piped=b"hi\n")[1]


def test_a_pipe_can_be_recorded(typed_line):
    """--record puts all runs into one cassette."""
    with FakeServer("One.", "Two.") as server:
        assert typed_line("chat", "--record", "a.cassette", server=server, piped=b"a\nb\n")[2] == 0
    assert "2 runs" in typed_line("show", "a.cassette")[0]


def test_ctrl_c_ends_a_pipe(spawn):
    """Ctrl-C ends what is piped in, with exit code 130; what was said is kept."""
    import signal
    import subprocess

    from agentkit.testing import slow

    with FakeServer(slow("one two three four", between_seconds=1.5)) as server:
        process = spawn("chat", server=server, stdin=subprocess.PIPE)
        process.stdin.write("hi\n")
        process.stdin.flush()
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.endswith("Interrupted.\n")) == (130, True)


def test_no_input_at_all_is_no_fault(spawn):
    """A process whose standard input is closed asks nothing."""
    import subprocess
    import sys

    closing = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    with FakeServer() as server:
        process = spawn("chat", server=server)
        assert process.communicate(timeout=60) == ("", "")
        command = [sys.executable, "-c", closing, "-m", "agentkit", "chat", "--offline"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_chat_begins_with_the_prompt_of_the_command_line(typed_line):
    """The prompt of the command line is the first, before the lines of a pipe."""
    with FakeServer("One.", "Two.") as server:
        out, _, code = typed_line("chat", "First", "prompt", server=server, piped=b"Second\n")
    assert (out, code) == ("One.\nTwo.\n", 0)
    assert server.requests[0].json["messages"][-1]["content"] == "First prompt"

"""Tests for `agentkit chat` with piped input: prompts per line, output, and exit codes."""

import json

from agentkit.sessions.session import Session
from agentkit.testing import FakeServer, call, fail

SUM = call("calculator", expression="2+2")
WRITE = call("write_file", path="note.txt", content="hello")


def test_each_piped_line_is_a_prompt(typed_line):
    """Each non-blank line is a prompt; answers go to stdout, and tool calls to stderr."""
    with FakeServer(SUM, "It is **4**.", "Four.") as server:
        out, err, code = typed_line("chat", server=server, piped=b"2+2?\n\n  \nIn words?\n")
    assert (out, code) == ("It is **4**.\nFour.\n", 0)
    assert err == '  calculator(expression="2+2") → 4  [allow: safety-level]\n'
    assert [message["role"] for message in server.requests[-1].json["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "user")
    ]
    assert Session.summaries()[0].runs == 2


def test_piped_lines_are_not_commands(typed_line):
    """A piped line that starts with a slash is sent as a prompt, not run as a command."""
    with FakeServer("ok", "ok") as server:
        assert typed_line("chat", "--no-session", server=server, piped=b"/safety system\n//x\n")[2] == 0
    questions = [request.json["messages"][-1]["content"] for request in server.requests]
    assert questions == ["/safety system", "//x"]
    assert Session.summaries() == []


def test_json_prints_one_document_per_line(typed_line):
    """--json prints one document per line for each prompt, with its tool calls and decisions."""
    with FakeServer(SUM, "4", "5") as server:
        out, err, _ = typed_line("chat", "--json", server=server, piped=b"2+2?\n2+3?\n")
    first, second = map(json.loads, out.splitlines())
    assert (first["output"], second["output"], err) == ("4", "5", "")
    assert first["tool_calls"][0]["decision"]["verdict"] == "allow"


def test_piped_yes_does_not_approve_a_call(typed_line, tmp_path):
    """A piped "y" does not approve a call: it is denied (exit code 4), and the next prompt runs."""
    with FakeServer(WRITE, "I could not.", "ok") as server:
        out, err, code = typed_line("chat", server=server, piped=b"Write it.\ny\n")
    assert (out, code, list(tmp_path.iterdir())) == ("I could not.\nok\n", 4, [])
    assert "[deny: safety-level]" in err


def test_changes_are_shown_on_stderr(typed_line, tmp_path):
    """File changes are shown on stderr, with and without --dry-run, but not with --json."""
    with FakeServer(WRITE, "Done.", repeat=False) as server:
        out, err, _ = typed_line("chat", "--dry-run", "-y", server=server, piped=b"Write it.\n")
    assert (out, "+hello" in err, list(tmp_path.iterdir())) == ("Done.\n", True, [])
    with FakeServer(WRITE, "Done.") as server:
        out, err, _ = typed_line("chat", "-y", "--json", server=server, piped=b"Write it.\n")
    assert "+hello" not in out + err
    assert (tmp_path / "note.txt").read_text() == "hello"


def test_provider_failure_skips_remaining_prompts(typed_line):
    """When the provider fails, the remaining piped prompts are not sent, and the exit code is 1."""
    with FakeServer(fail(403, "not for you")) as server:
        out, err, code = typed_line("chat", server=server, piped=b"hi\nnever\n")
    assert (out, code, "not for you" in err, len(server.requests)) == ("", 1, True, 1)


def test_limit_is_reported_and_the_next_prompt_runs(typed_line):
    """A reached limit is reported with exit code 3, and the next prompt starts a new run."""
    with FakeServer(SUM, SUM, "So far.", "ok") as server:
        out, err, code = typed_line("chat", "--limit", "tool_calls=1", server=server, piped=b"loop\nhi\n")
    assert (code, out) == (3, "So far.\nok\n")
    assert err.endswith("Allow more with: --limit tool_calls=NUMBER\n")


def test_piped_binary_data_is_a_usage_error(typed_line):
    """Piped bytes that are not text are a usage error (exit code 2)."""
    with FakeServer() as server:
        assert typed_line("chat", server=server, piped=b"\xff\xfe\n")[1:] == (
            "Error: The piped input is not text.\nPipe text, or name a file: @photo.png, @report.pdf\n",
            2,
        )


def test_empty_pipe_exits_with_0(typed_line):
    """Empty piped input sends no request and exits with code 0."""
    with FakeServer() as server:
        assert typed_line("chat", server=server) == ("", "", 0)


def test_usage_errors_are_reported_before_the_first_prompt(typed_line):
    """A missing key, unknown tools and conflicting flags are usage errors (exit code 2)."""
    out, err, code = typed_line("chat", piped=b"hi\n")
    assert (out, code, err.startswith("Error: No API key found.")) == ("", 2, True)
    with FakeServer() as server:
        assert "No tool is named 'webb'" in typed_line("chat", "-t", "webb", server=server)[1]
    assert "Use --offline or --model, not both" in typed_line("chat", "--offline", "-m", "x")[1]


def test_ignored_project_settings_are_reported(typed_line, tmp_path):
    """Ignored settings of an untrusted project are reported, as for a single question."""
    (tmp_path / "agentkit.toml").write_text('instruction = "Obey."\n')
    with FakeServer("ok") as server:
        assert "agentkit config trust" in typed_line("chat", server=server, piped=b"hi\n")[1]


def test_piped_chat_can_be_recorded(typed_line):
    """--record puts all runs into one cassette."""
    with FakeServer("One.", "Two.") as server:
        assert typed_line("chat", "--record", "a.cassette", server=server, piped=b"a\nb\n")[2] == 0
    assert "2 runs" in typed_line("show", "a.cassette")[0]


def test_ctrl_c_ends_a_pipe(spawn):
    """Ctrl-C during piped input ends the process with exit code 130."""
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


def test_closed_stdin_exits_with_0(spawn):
    """A process with empty or closed standard input sends no request and exits with code 0."""
    import subprocess
    import sys

    closing = "import os, sys; os.close(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    with FakeServer() as server:
        process = spawn("chat", server=server)
        assert process.communicate(timeout=60) == ("", "")
        command = [sys.executable, "-c", closing, "-m", "agentkit", "chat", "--offline"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_command_line_prompt_is_sent_first(typed_line):
    """The prompt on the command line is sent before the piped lines."""
    with FakeServer("One.", "Two.") as server:
        out, _, code = typed_line("chat", "First", "prompt", server=server, piped=b"Second\n")
    assert (out, code) == ("One.\nTwo.\n", 0)
    assert server.requests[0].json["messages"][-1]["content"] == "First prompt"

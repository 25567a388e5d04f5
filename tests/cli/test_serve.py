"""Tests for `agentkit serve`: addresses, tokens, and shutdown."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from agentkit.installation import install_command
from agentkit.testing import FakeServer, slow


@pytest.fixture
def serving(spawn, tmp_path):
    """Start `agentkit serve ARGUMENTS` on a free port; return the process and its first output line."""
    started = []

    def start(*arguments, server=None, **options):
        process = spawn("serve", "--port", "0", *arguments, server=server, cwd=tmp_path, **options)
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def get(url, token, document=None, **headers):
    """Return the JSON response to a request with this token."""
    origin, slash, path = url.removeprefix("http://").partition("/")
    host, _, port = origin.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
    body = None if document is None else json.dumps(document)
    connection.request("GET" if body is None else "POST", slash + path, body, headers)
    with connection.getresponse() as response:
        content = json.load(response)
    connection.close()
    return content


def test_agent_is_served_until_interrupted(serving):
    """Only the URL with its token is printed to stdout, the endpoint answers, and Ctrl-C shuts the server down."""
    with FakeServer("It is 42.") as model:
        process, address = serving("-m", "any", "-t", "calculator", server=model)
        origin, token = address.split("/#token=")
        assert get(f"{origin}/v1/models", token)["data"][0]["id"] == "agentkit"
        document = {"model": "agentkit", "messages": [{"role": "user", "content": "6*7?"}]}
        answer = get(f"{origin}/v1/chat/completions", token, document)
        assert answer["choices"][0]["message"]["content"] == "It is 42."
        assert [each["function"]["name"] for each in model.requests[0].json["tools"]] == ["calculator"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert f"base URL {origin}/v1, model agentkit" in err
    assert "Stopped." in err
    assert token not in err


def test_chosen_token_is_not_printed(serving):
    """A token given with --token is accepted, and not printed."""
    with FakeServer() as model:
        process, address = serving("--token", "my-own-token-of-sixteen", "--session", "trip", server=model)
        assert address.endswith("/")
        assert get(f"{address}page/about", "my-own-token-of-sixteen")["session"] == "trip"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert "my-own-token" not in out + err


def test_agent_in_a_file_is_served(serving, tmp_path):
    """`--agent` serves the agent of a file; flags apply to settings that the file omits."""
    (tmp_path / "clerk.txt").write_text("tools: calculator\n\nYou are a clerk.\n")
    with FakeServer() as model:
        flags = ("--agent", "clerk.txt", "--safety", "safe", "--limit", "tool_calls=3", "-m", "any")
        _, address = serving(*flags, server=model)
        origin, token = address.split("/#token=")
        about = get(f"{origin}/page/about", token)
    assert (about["agent"], about["safety"], [each["name"] for each in about["tools"]]) == (
        "clerk",
        "safe",
        ["calculator"],
    )


def test_model_of_the_agent_file_is_used(serving, tmp_path):
    """The model named in the agent's file is used."""
    (tmp_path / "clerk.txt").write_text("model: special\n\nYou are a clerk.\n")
    with FakeServer() as model:
        _, address = serving("--agent", "clerk.txt", server=model)
        origin, token = address.split("/#token=")
        assert get(f"{origin}/page/about", token)["model"] == "special"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "agent.example.com"])
def test_public_address_requires_a_token(typed_line, host):
    """Listening on a public address requires --token, and the error says how to set it."""
    with FakeServer() as model:
        out, err, code = typed_line("serve", "--host", host, server=model)
    assert (out, code) == ("", 2)
    assert f"--host {host} accepts connections from other machines" in err
    assert "AGENTKIT_TOKEN=" in err


def test_serving_other_hosts_warns(serving):
    """Serving other hosts works with a chosen token and warns about unencrypted traffic."""
    with FakeServer() as model:
        process, address = serving(
            "--host", "0.0.0.0", "--allow-host", "box.example.com", "--token", "chosen-token-of-16", server=model
        )
        port = address.rstrip("/").rpartition(":")[2]
        named = get(f"http://127.0.0.1:{port}/v1/models", "chosen-token-of-16", Host="box.example.com")
        assert named["data"][0]["id"] == "agentkit"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert "all traffic, including the token, is unencrypted" in err


def test_token_from_the_environment(typed_line, monkeypatch):
    """AGENTKIT_TOKEN sets the token, which is rejected if it is too short."""
    with FakeServer() as model:
        monkeypatch.setenv("AGENTKIT_TOKEN", "short")
        _, err, code = typed_line("serve", server=model)
    assert code == 2
    assert "at least 16" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "70000"),
        (["--runs", "0"], "runs"),
        (["--offline", "-m", "x"], "--offline or --model"),
        (["--agent", "none.txt"], "cannot be read"),
        (["-t", "calculater"], "calculator"),
        (["--safety", "wild"], "wild"),
        (["--allow-host", "http://x"], "A host is a name"),
        (["--host", "not a host"], "accepts connections from other machines"),
        (["question"], "unexpected"),
    ],
)
def test_invalid_option_exits_with_2(typed_line, arguments, words):
    """An invalid option is reported and exits with code 2."""
    with FakeServer() as model:
        _, err, code = typed_line("serve", *arguments, server=model)
    assert (code, words in err) == (2, True), err


def test_ignored_project_settings_are_reported(serving, tmp_path):
    """Ignored settings of an untrusted project are reported when the server starts."""
    (tmp_path / "agentkit.toml").write_text('model = "theirs"\n')
    with FakeServer() as model:
        process, address = serving("-m", "any", server=model)
        assert "#token=" in address
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert "is not trusted" in err


def test_server_does_not_start_without_a_key(typed_line):
    """Without a configured model, the server does not start and reports the missing key."""
    out, err, code = typed_line("serve", "--port", "0")
    assert (out, code) == ("", 2)
    assert "No API key found" in err


def test_port_in_use_is_an_error(typed_line):
    """A port in use or an invalid host is an error with a remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken, FakeServer() as model:
        port = taken.getsockname()[1]
        _, err, code = typed_line("serve", "--port", port, server=model)
        assert (code, f"port {port}: Address already in use." in err) == (2, True)
        assert "Choose another port, or 0 for one that is free." in err
        options = ("--host", "no.such.host.invalid", "--token", "chosen-token-of-16")
        _, err, code = typed_line("serve", *options, server=model)
        assert (code, "Nothing can listen on no.such.host.invalid" in err) == (2, True)


def test_missing_extra_is_named():
    """Without uvicorn, the error names the extra to install."""
    program = "import sys; sys.modules['uvicorn'] = None\nfrom agentkit.cli.main import run; sys.exit(run(['serve']))"
    with FakeServer() as model:
        env = {**os.environ, "OPENAI_BASE_URL": model.base_url}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert install_command("serve") in done.stderr


def test_command_is_listed_in_the_help(typed_line):
    """The command appears in the help, and its own help shows a base URL for clients."""
    out, _, _ = typed_line("--help")
    assert re.search(r"^  serve ", out, re.MULTILINE)
    out, _, _ = typed_line("serve", "--help")
    assert "base URL http://127.0.0.1:8080/v1" in out


def test_agent_of_a_program_is_served(serving, tmp_path):
    """`--agent FILE.py:NAME` serves the agent under its name, with its tools."""
    (tmp_path / "bot.py").write_text(
        "from agentkit import Agent, core_tools\nclerk = Agent('clerk', core_tools.only('calculator'), safety='safe')\n"
    )
    with FakeServer() as model:
        _, address = serving("--agent", "bot.py:clerk", "-m", "any", server=model)
        origin, token = address.split("/#token=")
        about = get(f"{origin}/page/about", token)
    assert (about["agent"], about["safety"]) == ("clerk", "safe")
    assert [each["name"] for each in about["tools"]] == ["calculator"]


@pytest.mark.parametrize("stream", [True, False])
def test_ctrl_c_ends_completions_with_an_error(serving, stream):
    """On Ctrl-C, the client of a completion receives an error, and the server prints no traceback."""
    is_asked = threading.Event()

    def reply(_request):
        is_asked.set()
        return slow("Too late.", before_seconds=60)

    with FakeServer(reply) as model:
        process, address = serving("-m", "any", "--no-tools", server=model)
        origin, token = address.split("/#token=")
        host, _, port = origin.removeprefix("http://").rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        asked = {"model": "agentkit", "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), headers)
        assert is_asked.wait(30)
        process.send_signal(signal.SIGINT)
        with connection.getresponse() as response:
            *_, last = response.read().strip().split(b"\n")
        connection.close()
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "stopped"
    assert response.status == (200 if stream else 503)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err, err.count("\n") < 6) == (0, False, True)


def test_ctrl_c_ends_streams_with_their_last_event(serving, tmp_path):
    """On Ctrl-C, a page that listens to a run receives `stopped`, and the server prints no traceback."""
    (tmp_path / "bot.py").write_text(
        "import time\nfrom agentkit import Agent\nfrom agentkit.testing import ScriptedLLM, call\n"
        "def slow() -> str:\n    time.sleep(20)\n    return ''\n"
        "bot = Agent('bot', [slow], llm=ScriptedLLM(call('slow'), 'Done.'))\n"
    )
    process, address = serving("--agent", "bot.py")
    origin, token = address.split("/#token=")
    started = get(f"{origin}/page/run", token, {"prompt": "go"})
    host, _, port = origin.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    path = f"/page/events?session={started['session']}&serial={started['serial']}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    with connection.getresponse() as lines:
        kinds = [json.loads(next(lines))["kind"]]
        process.send_signal(signal.SIGINT)
        kinds += [json.loads(line)["kind"] for line in lines if line.strip()]
    connection.close()
    _, err = process.communicate(timeout=30)
    assert kinds[-1] == "stopped"
    assert (process.returncode, "Traceback" in err, err.count("\n") < 6) == (0, False, True)

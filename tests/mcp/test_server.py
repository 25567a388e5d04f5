"""Can clients that others made use our tools, and is each of their calls judged as ever?"""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from mcp import Client, MCPError, StdioServerParameters, types

from agentkit import Agent, Policy, Rule, SafetyLevel, Tool, core_tools, tool, web_tools
from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import ConfigError
from agentkit.mcp import Address, MCPServer, ToolServer, serve
from agentkit.safety.approval import Approval
from agentkit.testing import ScriptedLLM, call
from agentkit.tools.catalog import file_tools

TOKEN = "tulip-tulip-tulip-4711"
MODES = ("auto", "legacy")


@tool(level="system")
def strike(what: str) -> str:
    """Strike."""
    return f"struck {what}"


@tool(level="network", labels=[Label.UNTRUSTED, Label.PRIVATE])
def read_all() -> str:
    """Read everything."""
    return "read"


def asked(server, name, arguments=None, mode="auto", **options):
    """What the package's own client gets for a call."""

    async def ask():
        async with Client(server.protocol_server(), mode=mode, **options) as client:
            return await client.call_tool(name, arguments or {})

    return asyncio.run(ask())


def text(result):
    """The text of a result."""
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_offered(mode):
    """A client is told names, descriptions and schemas as a model is, and what the levels mean."""

    async def ask():
        async with Client(ToolServer([core_tools, web_tools, strike]).protocol_server(), mode=mode) as client:
            return (await client.list_tools()).tools

    offered = {each.name: each for each in asyncio.run(ask())}
    calculator = core_tools.find("calculator")
    assert offered["calculator"].description == calculator.description
    assert offered["calculator"].input_schema == calculator.parameters
    assert offered["calculator"].annotations.read_only_hint is True
    assert offered["wikipedia"].annotations.open_world_hint is True
    assert offered["strike"].annotations.read_only_hint is None


@pytest.mark.parametrize("mode", MODES)
def test_calls_are_answered(mode):
    """A call is answered with what a model would be told, and with what was decided."""
    result = asked(ToolServer(core_tools), "calculator", {"expression": "6 * 7"}, mode)
    assert json.loads(text(result))["result"] == 42
    assert not result.is_error
    assert result.meta["agentkit/status"] == "ok"
    assert result.meta["agentkit/decision"]["verdict"] == "allow"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("calculator", {}, "'expression' is missing"),
        ("strike", {"what": "him"}, "nobody to approve"),
        ("read_file", {"path": "../../etc/passwd"}, "outside"),
    ],
)
def test_what_is_refused(name, arguments, told, tmp_path):
    """Bad arguments and calls that the judge does not allow are results with an error, and nothing is run."""
    server = ToolServer([core_tools, file_tools, strike], workspace=tmp_path, safety="network")
    result = asked(server, name, arguments)
    assert result.is_error
    assert told in text(result) or name == "read_file"
    assert result.meta["agentkit/decision"]["verdict"] in ("deny", "ask")


def test_an_unknown_tool_is_a_protocol_error():
    """A call of a tool that is not offered is refused as invalid parameters, with the closest name."""

    async def refused():
        async with Client(ToolServer([core_tools]).protocol_server()) as client:
            with pytest.raises(
                MCPError, match=r"No tool is named 'calcualtor'\. Did you mean 'calculator'\?"
            ) as caught:
                await client.call_tool("calcualtor", {})
            return caught.value.code

    assert asyncio.run(refused()) == types.INVALID_PARAMS


def test_a_policy_judges():
    """A policy of one's own judges the calls, its rules included."""
    policy = Policy(SafetyLevel.SYSTEM, [Rule("deny", "strike", {"what": {"equals": "him"}})])
    server = ToolServer([strike], policy=policy)
    assert asked(server, "strike", {"what": "him"}).is_error
    assert text(asked(server, "strike", {"what": "it"})) == "struck it"


async def approve_later(request):
    """An approver that awaits."""
    return Approval.LATER


def raises(request):
    """An approver that fails."""
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("approve", "told"),
    [
        (lambda _: True, "struck him"),
        (lambda _: {"what": "it"}, "struck it"),
        (lambda _: "Not him", "Approval was refused: Not him."),
        (raises, "the approver failed (ValueError: broken)"),
        (approve_later, "cannot wait for it"),
        (lambda _: {"whom": "him"}, "has no parameter 'whom'"),
    ],
)
def test_an_approver_is_asked(approve, told):
    """An approver of the program's own is asked as in a run; what it cannot do here is a no."""
    result = asked(ToolServer([strike], approve=approve), "strike", {"what": "him"})
    assert told in text(result)
    assert result.is_error is not told.startswith("struck")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("action", "content", "told"),
    [
        ("accept", {"approve": True}, "struck him"),
        ("accept", {"approve": False}, "said no"),
        ("accept", None, "said no"),
        ("decline", None, "said no"),
        ("cancel", None, "said no"),
    ],
)
def test_the_person_at_the_client_is_asked(mode, action, content, told):
    """The person at the client is asked, in either protocol, when the program says so and the client can."""
    questions = []

    async def answer(context, params):
        questions.append(params.message)
        return types.ElicitResult(action=action, content=content)

    server = ToolServer([strike], approve="client")
    result = asked(server, "strike", {"what": "him"}, mode, elicitation_callback=answer)
    assert told in text(result)
    assert "wants to call strike" in questions[0]
    assert "what: him" in questions[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_cannot_ask(mode):
    """A client that cannot ask anybody gets no."""
    assert "nobody to approve" in text(asked(ToolServer([strike], approve="client"), "strike", {"what": "him"}, mode))


def test_an_answer_to_another_question():
    """An answer that was given for another call is asked for anew."""

    async def ask():
        async def answer(context, params):
            return types.ElicitResult(action="accept", content={"approve": True})

        async with Client(server.protocol_server(), elicitation_callback=answer) as client:
            yes = {"approval": types.ElicitResult(action="accept", content={"approve": True})}
            return await client.session.call_tool(
                "strike", {"what": "him"}, input_responses=yes, request_state="another", allow_input_required=True
            )

    server = ToolServer([strike], approve="client")
    assert asyncio.run(ask()).result_type == "input_required"


def test_what_was_read_counts():
    """When a client has read strangers' text and private data, a call that could carry it out is asked about."""
    server = ToolServer([read_all, web_tools])
    assert text(asked(server, "read_all")) == "read"
    result = asked(server, "fetch_url", {"url": "https://example.com"})
    assert result.meta["agentkit/decision"]["rule"] == "flow"
    assert result.is_error


def test_what_was_read_is_never_forgotten():
    """No number of calls, by whatever names, makes a server forget that private data and strangers' text were read."""

    async def ask():
        server = ToolServer([read_all, core_tools, web_tools])
        await server.answer("read_all", {})
        for number in range(1_200):
            await server.answer("string_length" if number % 2 else f"no_tool_{number}", {"text": "a"})
        return await server.answer("fetch_url", {"url": "https://example.com"})

    assert asyncio.run(ask()).decision.rule == "flow"


def test_question_keeps_nobody_waiting():
    """While a person is asked about a call, other calls are made."""

    async def ask():
        is_asked, may_answer = asyncio.Event(), asyncio.Event()

        async def approve(request):
            is_asked.set()
            await may_answer.wait()
            return True

        server = ToolServer([strike, core_tools], approve=approve, most_calls=1)
        waiting = asyncio.create_task(server.answer("strike", {"what": "him"}))
        await is_asked.wait()
        other = await server.answer("calculator", {"expression": "6 * 7"})
        may_answer.set()
        return other, await waiting

    other, struck = asyncio.run(ask())
    assert (other.value["result"], struck.value) == (42, "struck him")


def test_what_no_approver_is():
    """An approver is a function, or the client."""
    with pytest.raises(ConfigError, match='or "client"'):
        ToolServer(core_tools, approve="me")


@pytest.mark.parametrize("mode", MODES)
def test_progress(mode):
    """A client that wants to know is told that its call is at work."""
    heard = []

    async def ask():
        is_told = asyncio.Event()

        async def on_progress(*told):
            heard.append(told)
            is_told.set()

        @tool
        async def slow() -> None:
            """Be slow."""
            await is_told.wait()

        async with Client(ToolServer([slow]).protocol_server(), mode=mode) as client:
            await client.call_tool("slow", {}, progress_callback=on_progress)

    asyncio.run(ask())
    assert heard[0] == (0.0, None, "slow is at work")


@pytest.mark.parametrize("mode", MODES)
def test_cancellation(mode):
    """A call that its client gives up is stopped."""

    async def ask():
        begun, stopped = asyncio.Event(), asyncio.Event()

        @tool
        async def endless() -> None:
            """Go on."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with Client(ToolServer([endless]).protocol_server(), mode=mode) as client:
            call = asyncio.create_task(client.call_tool("endless", {}))
            await begun.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await stopped.wait()
            return True

    assert asyncio.run(ask())


SERVE = "from agentkit import core_tools; from agentkit.mcp import serve; serve(core_tools)"


def test_over_stdio():
    """The package's own client uses our tools over stdin and stdout, and so does our own."""

    async def ask():
        parameters = StdioServerParameters(command=sys.executable, args=["-c", SERVE])
        async with Client(parameters) as client:
            return await client.call_tool("calculator", {"expression": "6 * 7"})

    assert json.loads(text(asyncio.run(ask())))["result"] == 42
    with MCPServer([sys.executable, "-c", SERVE], "ours", level="safe") as server:
        assert "ours_calculator" in server.tools.names
        assert json.loads(server.tools.find("ours_calculator")(expression="6 * 7"))["result"] == 42


HTTP = """
import sys
from agentkit import core_tools
from agentkit.mcp import Address, serve
serve(core_tools, http=Address(port=0, token=sys.argv[1], when_ready=lambda *ready: print(*ready, flush=True)))
"""


def test_the_input_ends():
    """A server over stdio ends when its input does."""
    done = subprocess.run([sys.executable, "-c", SERVE], input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextmanager
def over_http():
    """The URL of our tools, served over HTTP by a process."""
    process = subprocess.Popen([sys.executable, "-c", HTTP, TOKEN], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def posted(url, **headers):
    """The status of a request with these headers."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request("POST", address.path, body, {**given, **headers})
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_over_http():
    """Over HTTP nobody is answered without the token, under a stranger's name, or from a stranger's page."""
    with over_http() as url:
        with MCPServer(url, "ours", token=TOKEN, level="safe") as server:
            assert json.loads(server.call("calculator", expression="6 * 7"))["result"] == 42
            assert server.tools.find("ours_calculator").invoke({"expression": "1 +"}).status == "failed"
        key = {"authorization": f"Bearer {TOKEN}"}
        assert posted(url) == 401
        assert posted(url, authorization="Bearer other") == 401
        assert posted(url, **key, host="evil.example.com") == 421
        assert posted(url, **key, origin="https://evil.example.com") == 403
        with pytest.raises(ConfigError, match="cannot be used"):
            _ = MCPServer(url, token="wrong-wrong-wrong-4711").tools


def test_a_server_that_was_restarted():
    """A server behind a URL that was restarted is found again."""
    with over_http() as url:
        server = MCPServer(url, token=TOKEN)
        assert len(server) == len(core_tools)
        port = urlsplit(url).port
    again = HTTP.replace("port=0", f"port={port}")
    with subprocess.Popen([sys.executable, "-c", again, TOKEN], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        result = server.tools.find(server.tools.names[0]).invoke()
        if result.error:  # what was not told apart from a refusal is tried once more, by whoever called
            result = server.tools.find(server.tools.names[0]).invoke()
        assert result.ok
        server.close()
        process.send_signal(signal.SIGINT)


def test_an_address_that_is_taken():
    """An address that cannot be opened, and one that others reach without a token, are refused."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="Nothing can listen"):
        serve(core_tools, http=Address(port=taken.getsockname()[1]))
    with pytest.raises(ConfigError, match="can be reached by other machines"):
        Address(host="0.0.0.0")


@pytest.mark.parametrize(
    ("policy", "made", "rules"),
    [
        (Policy("SYSTEM"), ["a.txt"], []),
        (Policy("SYSTEM", rules=[Rule("deny", "strike")]), [], []),
        (Policy("SYSTEM", rules=[Rule("ask", "strike")]), [], ["ask strike"]),
        (Policy("SAFE"), [], ["safety-level"]),
    ],
)
def test_agents_within_are_bound_by_the_server(policy, made, rules):
    """What an agent that is served as a tool wants to do is judged by the server's policy too, and its person asked."""
    found, questions = [], []

    def strike(what: str) -> None:
        """Strike."""
        found.append(what)

    blow = Tool(strike, level="SYSTEM", judge=judged_as_safe)
    worker = Agent("worker", [blow], llm=ScriptedLLM(call("strike", what="a.txt"), "Done."), safety="SYSTEM")
    helper = Tool(worker.as_tool().function, "worker", "Work.", labels=())

    def approve(request):
        questions.append(request.decision.rule)
        return False

    server = ToolServer([helper], policy=policy, approve=approve)
    assert asyncio.run(server.answer("worker", {"request": "Strike."})).ok
    assert (found, questions) == (made, rules)


def judged_as_safe(_arguments):
    """Judges that nothing can happen but what the level says."""
    return Decision(Verdict.ALLOW, "harmless", "It is harmless.")


def test_agents_within_know_what_clients_have_read():
    """A request of a client that has read both kinds is no person's own words: what an agent sends is asked about."""
    sent = []

    def post(to: str) -> None:
        """Post."""
        sent.append(to)

    mail = Tool(post, level="NETWORK", labels=())
    worker = Agent("worker", [mail], llm=ScriptedLLM(call("post", to="bob"), "Done."))
    helper = Tool(worker.as_tool().function, "worker", "Work.", labels=())
    server = ToolServer([read_all, helper])

    async def answers():
        await server.answer("read_all", {})
        return await server.answer("worker", {"request": "Post it to bob."})

    assert asyncio.run(answers()).ok
    assert sent == []


def test_approver_changes_nothing_that_runs():
    """An approver that tidies up what it is shown has not changed the call: what runs is what was judged."""
    made = []

    def post(to: list[str]) -> None:
        """Post."""
        made.append(to)

    def approve(request):
        request.arguments["to"].append("Eve")
        return True

    server = ToolServer([Tool(post, level="SYSTEM")], approve=approve)
    assert asyncio.run(server.answer("post", {"to": ["Ann"]})).ok
    assert made == [["Ann"]]

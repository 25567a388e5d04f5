"""Tests for ToolServer with clients of the mcp package: decisions, approvals, resources, and HTTP."""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

from agentkit import Agent, Policy, Rule, SafetyLevel, Tool, core_tools, tool, web_tools
from agentkit.decisions import Decision, Label, Verdict
from agentkit.errors import ConfigError, ToolError
from agentkit.http_security import open_listener, origin_of
from agentkit.mcp import Address, MCPServer, ToolServer, calling_client, serve
from agentkit.mcp.sdk.server import PATH, MCPAuth, RecentEvents
from agentkit.mcp.sdk.server import over_http as sdk_over_http
from agentkit.safety.approval import Approval
from agentkit.sessions.session import Session
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
    """Return the MCP client's result of a call."""

    async def ask():
        async with Client(server.protocol_server(), mode=mode, **options) as client:
            return await client.call_tool(name, arguments or {})

    return asyncio.run(ask())


def text(result):
    """Return the text of a result."""
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_listed(mode):
    """Tools are listed with names, descriptions, schemas and annotations for their levels."""

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
    """A call returns the tool's result and the decision."""
    result = asked(ToolServer(core_tools), "calculator", {"expression": "6 * 7"}, mode)
    assert json.loads(text(result))["result"] == 42
    assert not result.is_error
    assert result.meta["agentkit/status"] == "ok"
    assert result.meta["agentkit/decision"]["verdict"] == "allow"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("calculator", {}, "'expression' is missing"),
        ("strike", {"what": "him"}, "There is no approver."),
        ("read_file", {"path": "../../etc/passwd"}, "outside"),
    ],
)
def test_refused_calls(name, arguments, expected, tmp_path):
    """Invalid arguments and calls that are not allowed return an error and do not run."""
    server = ToolServer([core_tools, file_tools, strike], workspace=tmp_path, safety="network")
    result = asked(server, name, arguments)
    assert result.is_error
    assert expected in text(result) or name == "read_file"
    assert result.meta["agentkit/decision"]["verdict"] in ("deny", "ask")


def test_unknown_tool_is_a_protocol_error():
    """Calling a tool that is not offered is an invalid-parameters error that suggests the closest name."""

    async def refused():
        async with Client(ToolServer([core_tools]).protocol_server()) as client:
            with pytest.raises(
                MCPError, match=r"No tool is named 'calcualtor'\. Did you mean 'calculator'\?"
            ) as caught:
                await client.call_tool("calcualtor", {})
            return caught.value.code

    assert asyncio.run(refused()) == types.INVALID_PARAMS


def test_custom_policy_applies():
    """A custom policy and its rules apply to the calls."""
    policy = Policy(SafetyLevel.SYSTEM, [Rule("deny", "strike", {"what": {"equals": "him"}})])
    server = ToolServer([strike], policy=policy)
    assert asked(server, "strike", {"what": "him"}).is_error
    assert text(asked(server, "strike", {"what": "it"})) == "struck it"


async def approve_later(request):
    """An async approver."""
    return Approval.LATER


def raises(request):
    """An approver that raises an error."""
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("approve", "expected"),
    [
        (lambda _: True, "struck him"),
        (lambda _: {"what": "it"}, "struck it"),
        (lambda _: "Not him", "Approval was refused: Not him."),
        (raises, "the approver failed (ValueError: broken)"),
        (approve_later, "cannot wait."),
        (lambda _: {"whom": "him"}, "has no parameter 'whom'"),
    ],
)
def test_approver_decides(approve, expected):
    """The program's approver decides about a call; an unusable answer is a refusal."""
    result = asked(ToolServer([strike], approve=approve), "strike", {"what": "him"})
    assert expected in text(result)
    assert result.is_error is not expected.startswith("struck")


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each(
    ("action", "content", "expected"),
    [
        ("accept", {"approve": True}, "struck him"),
        ("accept", {"approve": False}, "The user of the client refused it."),
        ("accept", None, "The user of the client refused it."),
        ("decline", None, "The user of the client refused it."),
        ("cancel", None, "The user of the client refused it."),
    ],
)
def test_user_of_the_client_is_asked(mode, action, content, expected):
    """With `approve="client"`, the client's user is asked, in either protocol, if the client supports it."""
    questions = []

    async def answer(context, params):
        questions.append(params.message)
        return types.ElicitResult(action=action, content=content)

    server = ToolServer([strike], approve="client")
    result = asked(server, "strike", {"what": "him"}, mode, elicitation_callback=answer)
    assert expected in text(result)
    assert "wants to call strike" in questions[0]
    assert "what: him" in questions[0]


@pytest.mark.parametrize("mode", MODES)
def test_client_without_elicitation(mode):
    """A call is denied if the client cannot ask its user."""
    assert "There is no approver." in text(
        asked(ToolServer([strike], approve="client"), "strike", {"what": "him"}, mode)
    )


def test_approval_for_another_call_is_not_used():
    """An approval given for another call is requested again."""

    async def ask():
        async def answer(context, params):
            return types.ElicitResult(action="accept", content={"approve": True})

        async with Client(server.protocol_server(), elicitation_callback=answer) as client:
            yes = {"answer": types.ElicitResult(action="accept", content={"approve": True})}
            another = json.dumps({"key": "another", "said": {}})
            return await client.session.call_tool(
                "strike", {"what": "him"}, input_responses=yes, request_state=another, allow_input_required=True
            )

    server = ToolServer([strike], approve="client")
    assert asyncio.run(ask()).result_type == "input_required"


def test_flow_rule_applies_to_clients():
    """After a client has read untrusted text and private data, an outgoing call needs approval."""
    server = ToolServer([read_all, web_tools])
    assert text(asked(server, "read_all")) == "read"
    result = asked(server, "fetch_url", {"url": "https://example.com"})
    assert result.meta["agentkit/decision"]["rule"] == "flow"
    assert result.is_error


def test_labels_persist_after_many_calls():
    """The labels of data read by a client persist after any number of calls."""

    async def ask():
        server = ToolServer([read_all, core_tools, web_tools])
        await server.answer("read_all", {})
        for number in range(1_200):
            await server.answer("string_length" if number % 2 else f"no_tool_{number}", {"text": "a"})
        return await server.answer("fetch_url", {"url": "https://example.com"})

    assert asyncio.run(ask()).decision.rule == "flow"


def test_other_calls_run_during_an_approval():
    """Other calls are answered while a call waits for approval."""

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


def test_invalid_approver():
    """An approver that is neither a function nor "client" raises a ConfigError."""
    with pytest.raises(ConfigError, match='or "client"'):
        ToolServer(core_tools, approve="me")


@pytest.mark.parametrize("mode", MODES)
def test_progress(mode):
    """A client with a progress callback is notified that its call is running."""
    messages = []

    async def ask():
        is_told = asyncio.Event()

        async def on_progress(*text):
            messages.append(text)
            is_told.set()

        @tool
        async def slow() -> None:
            """Be slow."""
            await is_told.wait()

        async with Client(ToolServer([slow]).protocol_server(), mode=mode) as client:
            await client.call_tool("slow", {}, progress_callback=on_progress)

    asyncio.run(ask())
    assert messages[0] == (0.0, None, "slow is running")


@pytest.mark.parametrize("mode", MODES)
def test_cancellation(mode):
    """A call cancelled by its client is stopped."""

    async def ask():
        started, stopped = asyncio.Event(), asyncio.Event()

        @tool
        async def endless() -> None:
            """Go on."""
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with Client(ToolServer([endless]).protocol_server(), mode=mode) as client:
            call = asyncio.create_task(client.call_tool("endless", {}))
            await started.wait()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await stopped.wait()
            return True

    assert asyncio.run(ask())


SERVE = "from agentkit import core_tools; from agentkit.mcp import serve; serve(core_tools)"


def test_over_stdio():
    """The mcp package's client and agentkit's client use the tools over stdin and stdout."""

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


def test_end_of_input_ends_the_server():
    """A server over stdio ends when its input ends."""
    done = subprocess.run([sys.executable, "-c", SERVE], input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextmanager
def over_http():
    """The URL of the tools, served over HTTP by a process."""
    process = subprocess.Popen([sys.executable, "-c", HTTP, TOKEN], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def posted(url, padding=0, **headers):
    """Return the status of a request with these headers and this many additional bytes."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + " " * padding
    given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    connection.request("POST", address.path, body, {**given, **headers})
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_over_http():
    """HTTP requests with a wrong token, host or origin, or that are too large, are rejected."""
    with over_http() as url:
        with MCPServer(url, "ours", token=TOKEN, level="safe") as server:
            assert json.loads(server.call("calculator", expression="6 * 7"))["result"] == 42
            assert server.tools.find("ours_calculator").invoke({"expression": "1 +"}).status == "failed"
        key = {"authorization": f"Bearer {TOKEN}"}
        assert posted(url) == 401
        assert posted(url, authorization="Bearer other") == 401
        assert posted(url, **key, host="evil.example.com") == 421
        assert posted(url, **key, origin="https://evil.example.com") == 403
        assert posted(url, 8_000_000, **key) == 413
        assert posted(url, 7_000_000, **key) != 413
        with pytest.raises(ConfigError, match="cannot be used"):
            _ = MCPServer(url, token="wrong-wrong-wrong-4711").tools


def test_restarted_server_is_reconnected():
    """A server behind a URL that was restarted is found again."""
    with over_http() as url:
        server = MCPServer(url, token=TOKEN)
        assert len(server) == len(core_tools)
        port = urlsplit(url).port
    again = HTTP.replace("port=0", f"port={port}")
    with subprocess.Popen([sys.executable, "-c", again, TOKEN], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        result = server.tools.find(server.tools.names[0]).invoke()
        if result.error:  # a failure that looks like a rejection is retried by the caller
            result = server.tools.find(server.tools.names[0]).invoke()
        assert result.ok
        server.close()
        process.send_signal(signal.SIGINT)


def test_invalid_addresses():
    """An address in use, or a public one without a token, raises a ConfigError."""
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
def test_served_agents_are_bound_by_the_server(policy, made, rules):
    """Calls of a served agent are also judged by the server's policy."""
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
    """Allow every call, so that only the level applies."""
    return Decision(Verdict.ALLOW, "harmless", "It is harmless.")


def test_served_agents_inherit_client_labels():
    """A served agent inherits the labels of the data that the client has read."""
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


def test_approver_cannot_modify_the_call():
    """An approver that modifies the arguments it receives does not change the call."""
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


def with_client(server, question, mode="auto", **options):
    """Return the answer of the mcp package's client to a request."""

    async def ask():
        async with Client(server.protocol_server(), mode=mode, **options) as client:
            return await question(client)

    return asyncio.run(ask())


def rules():
    """The house rules."""
    return "Be kind."


def note(name: Literal["apple", "pear"]):
    """A note."""
    return {"name": name}


@pytest.mark.parametrize("mode", MODES)
def test_resources(mode):
    """Functions are resources with a URI or template; an unknown URI is an error that suggests the closest one."""
    server = ToolServer([], resources={"notes://rules": rules, "notes://by-name/{name}": note})

    async def read(client):
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        contents = [(await client.read_resource(uri)).contents[0] for uri in ("notes://rules", "notes://by-name/pear")]
        with pytest.raises(
            MCPError, match=r"No resource is named 'notes://rule'. Did you mean 'notes://rules'"
        ) as error:
            await client.read_resource("notes://rule")
        with pytest.raises(MCPError, match="notes://by-name/plum cannot be read"):
            await client.read_resource("notes://by-name/plum")
        return listed, templates, contents, error.value.code

    listed, templates, contents, code = with_client(server, read, mode)
    assert [(each.uri, each.name, each.description) for each in listed] == [
        ("notes://rules", "rules", "The house rules.")
    ]
    assert [each.uri_template for each in templates] == ["notes://by-name/{name}"]
    assert [(each.text, each.mime_type) for each in contents] == [
        ("Be kind.", "text/plain"),
        ('{"name": "pear"}', "application/json"),
    ]
    assert code == types.INVALID_PARAMS


def test_placeholders_must_match_the_parameters():
    """A template whose placeholders differ from the parameters of its function is rejected."""
    with pytest.raises(ConfigError, match="must be the arguments of its function: name"):
        ToolServer([], resources={"notes://{title}": note})


def test_files_and_sessions(tmp_path):
    """Files of the workspace, except secret ones, and sessions are resources under the server's policy."""
    (tmp_path / "a.txt").write_text("Hello.")
    (tmp_path / ".env").write_text("KEY=secret")
    place = tmp_path / "sessions.db"
    Agent("helper", llm=ScriptedLLM("Good day."), session=Session.open(place, "talk")).run("Greet me.")
    server = ToolServer([web_tools], workspace=tmp_path, files=True, sessions=place, safety="system")

    async def read(client):
        listed = [each.uri for each in (await client.list_resources()).resources]
        texts = [(await client.read_resource(uri)).contents[0].text for uri in ("file:///a.txt", "session:///talk")]
        for uri in ("file:///.env", "file:///../x", "session:///no"):
            with pytest.raises(MCPError, match="cannot be read"):
                await client.read_resource(uri)
        reference = types.ResourceTemplateReference(uri="file:///{+path}")
        completed = await client.complete(reference, {"name": "path", "value": "a"})
        fetched = await client.call_tool("fetch_url", {"url": "https://example.com"})
        return listed, texts, completed.completion.values, fetched.meta["agentkit/decision"]["rule"]

    listed, texts, completed, rule = with_client(server, read)
    assert {"file:///a.txt", "session:///talk"} <= {*listed}
    assert "file:///.env" not in listed
    assert texts[0] == "Hello."
    assert "Good day." in texts[1]
    assert completed == ["a.txt"]
    assert rule == "flow"

    cautious = ToolServer([], workspace=tmp_path, files=True, policy=Policy(rules=[Rule("deny", "read_file")]))

    async def refused(client):
        with pytest.raises(MCPError, match="cannot be read"):
            await client.read_resource("file:///a.txt")

    with_client(cautious, refused)


def review(code: str, tone: Literal["kind", "strict"] = "kind"):
    """Ask for a review."""
    return f"Review this, be {tone}: {code}"


@pytest.mark.parametrize("mode", MODES)
def test_prompts(mode):
    """Functions and agents are prompts with arguments; choices are completed, and other values are rejected."""
    server = ToolServer([], prompts=[review, Agent("poet", instruction="Answer in verse.", llm=ScriptedLLM())])

    async def read(client):
        listed = (await client.list_prompts()).prompts
        reviewed = await client.get_prompt("review", {"code": "x = 1", "tone": "strict"})
        poet = await client.get_prompt("poet", {"message": "Hello?"})
        for name, arguments in (("revue", {}), ("review", {}), ("review", {"code": "x", "tone": "rude"})):
            with pytest.raises(MCPError) as error:
                await client.get_prompt(name, arguments)
            assert error.value.code == types.INVALID_PARAMS
        completed = await client.complete(types.PromptReference(name="review"), {"name": "tone", "value": "st"})
        return listed, [each.messages[0].content.text for each in (reviewed, poet)], completed.completion.values

    listed, texts, completed = with_client(server, read, mode)
    assert [(each.name, each.description) for each in listed] == [
        ("review", "Ask for a review."),
        ("poet", "The instruction of the agent poet."),
    ]
    assert [(each.name, each.required) for each in listed[0].arguments] == [("code", True), ("tone", False)]
    assert texts == ["Review this, be strict: x = 1", "Answer in verse.\n\nHello?"]
    assert completed == ["strict"]
    with pytest.raises(ConfigError, match="is a function, so it cannot be an MCP prompt"):
        ToolServer([], prompts=[Agent("poet", instruction=lambda: "Now.", llm=ScriptedLLM())])


async def talk():
    """Talk to the client."""
    client = calling_client()
    await client.progress(1, 2, "half")
    name = await client.ask("Who are you?", {"name": {"type": "string"}}, required=["name"])
    await client.log("quiet", "debug")
    await client.log("loud", "error")
    return f"{name} {await client.sample('Say hello.', max_tokens=10)}"


@pytest.mark.parametrize("mode", MODES)
def test_tool_sends_requests_to_its_client(mode):
    """A tool can send requests to the client's user and model, report progress, and send log messages."""
    logged, messages = [], []

    async def answer(context, params):
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(context, params):
        content = types.TextContent(text=f"I read {params.messages[0].content.text}")
        return types.CreateMessageResult(role="assistant", content=content, model="own")

    async def log(params):
        logged.append((params.level, params.data))

    async def progress(done, total, message):
        messages.append((done, total, message))

    async def ask(client):
        if mode == "legacy":
            level = types.SetLevelRequest(params=types.SetLevelRequestParams(level="warning"))
            await client.session.send_request(level, types.EmptyResult)
        return await client.call_tool("talk", progress_callback=progress)

    options = {"elicitation_callback": answer, "sampling_callback": sample, "logging_callback": log}
    result = with_client(ToolServer([talk]), ask, mode, log_level="warning", **options)
    assert text(result) == "{'name': 'Ann'} I read Say hello."
    assert {*logged} == {("error", "loud")}
    assert (1, 2, "half") in messages


def test_client_without_capabilities():
    """Without these capabilities, a request to the user has no answer, and one to the model is rejected."""
    assert "The client provides no model" in text(asked(ToolServer([talk]), "talk"))
    with pytest.raises(ToolError, match="No MCP client"):
        asyncio.run(talk())


@pytest.mark.parametrize("mode", MODES)
def test_resource_subscription(mode):
    """A client is notified when a resource changes, until it unsubscribes."""
    texts = ["one"]
    server = ToolServer([], resources={"notes://now": Tool(lambda: texts[-1], "now", "What is now.")})

    async def watch(client):
        if mode == "auto":
            async with client.listen(resource_subscriptions=["notes://now"]) as events:
                texts.append("two")
                return (await asyncio.wait_for(anext(events), 20)).uri
        params = types.SubscribeRequestParams(uri="notes://now")
        await client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)
        texts.append("two")
        uri = await asyncio.wait_for(messages.get(), 20)
        params = types.UnsubscribeRequestParams(uri="notes://now")
        await client.session.send_request(types.UnsubscribeRequest(params=params), types.EmptyResult)
        texts.append("three")
        await asyncio.sleep(1.5)
        assert messages.empty()
        return uri

    messages = asyncio.Queue()

    async def record(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            messages.put_nowait(message.params.uri)

    assert with_client(server, watch, mode, message_handler=record) == "notes://now"


async def slow():
    """Take a while, without a connection."""
    await calling_client().disconnect()
    await asyncio.sleep(0.2)
    return "It is done."


def test_response_is_resumed():
    """A reconnected client gets the rest of its response; ids of other streams give nothing."""

    async def ask():
        gate = MCPAuth(TOKEN)
        with open_listener("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(sdk_over_http(ToolServer([slow]).protocol_server(), listener, gate))
            http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
            transport = streamable_http_client(f"{origin_of(listener)}{PATH}", http_client=http)
            async with http, Client(transport, mode="legacy") as client:
                result = await client.call_tool("slow")
            serving.cancel()
            return text(result)

    assert asyncio.run(ask()) == "It is done."

    async def replay():
        events, sent = RecentEvents(), []

        async def send(event):
            sent.append(event.message)

        first = await events.store_event("a", None)
        for stream in "aba":
            await events.store_event(stream, f"of {stream}")
        assert await events.replay_events_after("unknown", send) is None
        return await events.replay_events_after(first, send), sent

    assert asyncio.run(replay()) == ("a", ["of a", "of a"])

"""Tests for AG-UI: a page with the official client runs tools, shares state and approves calls."""

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentkit import Agent, RunContext, core_tools, tool
from agentkit.errors import Rejected
from agentkit.events import ReasoningDelta, ResponseReceived, TextDelta
from agentkit.messages import AssistantMessage, Response
from agentkit.server.ag_ui import AGUITranslation, SharedState
from agentkit.server.conversations import Conversations
from agentkit.sessions.stores import store_at
from agentkit.testing import ScriptedLLM, call, say
from agentkit.tools.human import ask_user_tool

CLIENT = "@ag-ui/client@1.0.0"
DRIVER = Path(__file__).with_name("ag_ui_client.mjs")
ASKED = {"id": "u1", "role": "user", "content": "How much is 6*7?"}
COLOUR = {
    "name": "set_colour",
    "description": "Set the colour of the page.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


@tool(level="system")
def send_mail(to: str) -> str:
    """Send a mail.

    Args:
        to: The address.
    """
    return f"sent to {to}"


def user(text, number=1):
    """Return a message of the user."""
    return {"id": f"u{number}", "role": "user", "content": text}


@pytest.fixture(params=["package", pytest.param("npm", marks=pytest.mark.slow)])
def page(request):
    """Run the steps of a page against a served agent; return the state of the client after each step.

    As `package` the steps are sent as plain HTTP and read with the models of ag-ui-protocol; as `npm` the official
    client runs them under Node.
    """
    return request.getfixturevalue("npm_page") if request.param == "npm" else run_steps


@pytest.fixture(scope="session")
def npm_folder(tmp_path_factory):
    """Return a folder with the official client."""
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.skip("AG-UI's client needs npm and Node")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / DRIVER.name).write_text(DRIVER.read_text())
    done = subprocess.run(
        ["npm", "install", "--silent", CLIENT], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm could not install {CLIENT}: {done.stderr[-300:]}")
    return folder


@pytest.fixture
def npm_page(npm_folder):
    """Run the steps with the official client."""

    def run(served, *steps, state=None, thread="t1"):
        given = {"url": f"{served.origin}/ag-ui", "token": served.token, "steps": steps, "state": state}
        done = subprocess.run(
            ["node", DRIVER.name],
            cwd=npm_folder,
            input=json.dumps({**given, "threadId": thread}),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def run_steps(served, *steps, state=None, thread="t1"):
    """Run the steps without the client, which applies the events to messages, as far as the tests look at them."""
    from ag_ui.core import Event
    from pydantic import TypeAdapter

    messages, received, interrupts = [], [], []
    for number, step in enumerate(steps):
        messages = [*messages[: step.get("keep", len(messages))], *step.get("add", [])]
        given = {"threadId": thread, "runId": f"r{number}", "messages": messages, "state": state, **step.get("run", {})}
        body = served.ask("POST", "/ag-ui", {name: value for name, value in given.items() if value is not None}).body
        lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
        events = [TypeAdapter(Event).validate_json(line).model_dump(by_alias=True, mode="json") for line in lines]
        last = events[-1]
        for event in events:
            state = event["snapshot"] if event["type"] == "STATE_SNAPSHOT" else state
            messages = _applied(messages, event)
        outcome = last.get("outcome") or {}
        interrupts = outcome.get("interrupts", [])
        pending = outcome.get("pendingToolCallIds", []) if outcome.get("type") == "success" else None
        error = {name: last[name] for name in ("message", "code")} if last["type"] == "RUN_ERROR" else None
        types = [event["type"] for event in events]
        received.append({"types": types, "messages": messages, "state": state, "interrupts": interrupts})
        received[-1] |= {"pending": pending, "error": error}
    return received


def _applied(messages, event):
    of_response = {"TEXT_MESSAGE_START": "messageId", "TOOL_CALL_START": "parentMessageId"}.get(event["type"])
    if of_response and not any(each["id"] == event[of_response] for each in messages):
        messages = [*messages, {"id": event[of_response], "role": "assistant", "content": ""}]
    match event["type"]:
        case "TEXT_MESSAGE_CONTENT":
            messages[-1]["content"] += event["delta"]
        case "TOOL_CALL_START":
            function = {"name": event["toolCallName"], "arguments": ""}
            messages[-1].setdefault("toolCalls", []).append(
                {"id": event["toolCallId"], "type": "function", "function": function}
            )
        case "TOOL_CALL_ARGS":
            messages[-1]["toolCalls"][-1]["function"]["arguments"] += event["delta"]
        case "TOOL_CALL_RESULT":
            result = {"role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
            messages = [*messages, {"id": event["messageId"], **result}]
    return messages


def test_text_and_tool_calls_are_streamed(serve, page):
    """The page gets text, reasoning, the calls with their results, and each response as a message."""
    served = serve(say("I calculate.", call("calculator", expression="6*7")), say("It is 42.", reasoning="Hm."))
    (seen,) = page(served, {"add": [ASKED]})
    assert seen["error"] is None
    assert seen["types"].count("REASONING_MESSAGE_CONTENT") == seen["types"].count("REASONING_END") == 1
    seen["messages"] = [each for each in seen["messages"] if each["role"] != "reasoning"]
    assert seen["types"][0] == "RUN_STARTED"
    assert seen["types"][-1] == "RUN_FINISHED"
    _, first, result, last = seen["messages"]
    assert first["content"] == "I calculate."
    assert first["toolCalls"][0]["function"] == {"name": "calculator", "arguments": '{"expression": "6*7"}'}
    assert result["toolCallId"] == first["toolCalls"][0]["id"]
    assert json.loads(result["content"])["result"] == 42
    assert last["content"] == "It is 42."


def test_thread_is_a_conversation(serve, page, tmp_path):
    """A second message continues the conversation; changed or repeated messages replace what followed."""
    llm = ScriptedLLM("Good day, Ana.", "Ana.", "Ana, as said.", "Bo.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    steps = [{"add": [user("I am Ana.")]}, {"add": [user("Who am I?", 2)]}, {"keep": 3}]
    *_, again, edited = page(served, *steps, {"keep": 2, "add": [user("Who is Bo?", 3)]})
    assert again["messages"][-1]["content"] == "Ana, as said."
    assert edited["messages"][-1]["content"] == "Bo."
    questions = [
        [message.content for message in request.messages if message.role == "user"] for request in llm.requests
    ]
    assert questions == [["I am Ana."], *[["I am Ana.", "Who am I?"]] * 2, ["I am Ana.", "Who is Bo?"]]


def test_unknown_thread_starts_with_its_messages(serve, tmp_path):
    """A thread that the server does not know starts with the messages of the page; its context follows the prompt."""
    llm = ScriptedLLM("Ana.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    picture = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    letter = {"type": "document", "source": {"type": "url", "value": "https://x.org/a.pdf"}}
    last = {**user("", 2), "content": [{"type": "text", "text": "Who am I?"}, picture, letter]}
    earlier = [{"id": "s", "role": "system", "content": "Obey."}, user("I am Ana."), say_of("Good day.")]
    context = [{"description": "open page", "value": "the profile"}]
    (seen,) = run_steps(served, {"add": [*earlier, last], "run": {"context": context}})
    assert seen["messages"][-1]["content"] == "Ana."
    first, answer, prompt = llm.requests[0].messages[-3:]
    assert (first.content, answer.text) == ("I am Ana.", "Good day.")
    assert prompt.content[0] == "Who am I?"
    assert prompt.content[1].url == "data:image/png;base64,aGk="
    assert prompt.content[2].url == "https://x.org/a.pdf"
    assert "open page: the profile" in prompt.content[3]


def say_of(text):
    """Return an answer in the messages of the page."""
    return {"id": "a1", "role": "assistant", "content": text}


def test_tools_run_in_the_page(serve, page, tmp_path):
    """The page runs its own tools, and the run continues with their results, which count as untrusted."""
    llm = ScriptedLLM(call("set_colour", name="red"), "It is red.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    done = {"id": "m9", "role": "tool", "toolCallId": "call_1_1", "content": "done"}
    offered = {"tools": [COLOUR]}
    first, second = page(served, {"add": [user("Red!")], "run": offered}, {"add": [done], "run": offered})
    assert (first["pending"], first["interrupts"], first["error"]) == (["call_1_1"], [], None)
    assert "TOOL_CALL_RESULT" not in first["types"]
    assert second["messages"][-1]["content"] == "It is red."
    result = llm.requests[1].messages[-1]
    assert (result.content, result.labels) == ("done", {"untrusted"})


def test_failed_page_tool_reports_its_error(serve, tmp_path):
    """A failed page tool sends its error to the model, and a run before its result is rejected."""
    llm = ScriptedLLM(call("set_colour", name="red"), "It did not work.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    failed = {"id": "m9", "role": "tool", "toolCallId": "call_1_1", "content": "", "error": "no such colour"}
    offered = {"tools": [COLOUR]}
    steps = {"add": [user("Red!")], "run": offered}, {"run": offered}, {"add": [failed], "run": offered}
    _, early, done = run_steps(served, *steps)
    assert early["error"]["code"] == "not_answered"
    assert done["messages"][-1]["content"] == "It did not work."
    assert "no such colour" in llm.requests[1].messages[-1].content


def test_new_message_replaces_a_pending_page_result(serve, page, tmp_path):
    """A new user message is answered, and the pending page call has a result saying that it did not run."""
    llm = ScriptedLLM(call("set_colour", name="red"), "Never mind, then.")
    served = serve(agent=Agent("helper", llm=llm, workspace=tmp_path))
    offered = {"tools": [COLOUR]}
    steps = [{"add": [user("Red!")], "run": offered}, {"add": [user("Forget it.", 2)], "run": offered}]
    *_, seen = page(served, *steps)
    assert seen["messages"][-1]["content"] == "Never mind, then."
    result, message = llm.requests[1].messages[-2:]
    assert "did not run" in result.content
    assert message.content == "Forget it."


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ({"approved": True}, "sent to bo@x.org"),
        ({"approved": True, "editedArgs": {"to": "ana@x.org"}}, "sent to ana@x.org"),
        ({"approved": False, "reason": "Too late"}, "Too late"),
        (None, "refused"),
    ],
)
def test_approvals_are_interrupts(serve, page, tmp_path, payload, result):
    """A call that needs approval interrupts the run, and the next run receives the user's decision."""
    llm = ScriptedLLM(call("send_mail", to="bo@x.org"), "Done.")
    served = serve(agent=Agent("helper", [send_mail], llm=llm, workspace=tmp_path))
    status = {"status": "cancelled"} if payload is None else {"status": "resolved", "payload": payload}
    resume = [{"interruptId": "call_1_1", **status}]
    first, second = page(served, {"add": [user("Mail Bo.")]}, {"run": {"resume": resume}})
    (interrupt,) = first["interrupts"]
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "call_1_1")
    assert "bo@x.org" in interrupt["message"]
    assert interrupt["metadata"]["agentkit"]["decision"]["verdict"] == "ask"
    assert second["error"] is None
    assert "TOOL_CALL_START" not in second["types"]
    assert result in next(each for each in second["messages"] if each["role"] == "tool")["content"]
    assert second["messages"][-1]["content"] == "Done."


def test_questions_are_interrupts(serve, page, tmp_path):
    """A question to the user is an interrupt with a schema for its answer."""
    llm = ScriptedLLM(call("ask_user", question="Which one?"), "The red one.")
    served = serve(agent=Agent("helper", [ask_user_tool()], llm=llm, workspace=tmp_path))
    resume = [{"interruptId": "call_1_1", "status": "resolved", "payload": {"answer": "red"}}]
    first, second = page(served, {"add": [user("Choose.")]}, {"run": {"resume": resume}})
    assert first["interrupts"][0]["reason"] == "input_required"
    assert first["interrupts"][0]["responseSchema"]["required"] == ["answer"]
    assert second["messages"][-1]["content"] == "The red one."
    assert llm.requests[1].messages[-1].content == "red"


def add_item(shared: RunContext[SharedState], name: str) -> str:
    """Add an item to the list on the page.

    Args:
        shared: The state of the page.
        name: The item.
    """
    shared.value.data["items"].append(name)
    return "added"


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        ({"status": "cancelled"}, "did not answer"),
        ({"status": "resolved", "payload": "red"}, "red"),
        ({"status": "resolved", "payload": {"text": "red"}}, None),
    ],
)
def test_questions_can_be_left_open(serve, tmp_path, entry, result):
    """A question can be cancelled or answered with text, and a payload without an answer is rejected."""
    llm = ScriptedLLM(call("ask_user", question="Which one?"), "Fine.")
    served = serve(agent=Agent("helper", [ask_user_tool()], llm=llm, workspace=tmp_path))
    resume = [{"interruptId": "call_1_1", **entry}]
    _, seen = run_steps(served, {"add": [user("Choose.")]}, {"run": {"resume": resume}})
    if result is None:
        assert seen["error"]["code"] == "invalid_value"
    else:
        assert result in llm.requests[1].messages[-1].content


def test_one_run_at_a_time(serve, tmp_path):
    """A thread has one run at a time, and a second one is rejected without affecting the first."""
    started, leave = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        started.set()
        leave.wait(20)
        return "over"

    served = serve(agent=Agent("helper", [wait], llm=ScriptedLLM(call("wait"), "Done."), workspace=tmp_path))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run_steps, served, {"add": [user("Wait.")]})
        assert started.wait(20)
        (second,) = run_steps(served, {"add": [user("Now?")]})
        leave.set()
        assert second["error"]["code"] == "busy"
        assert first.result()[0]["messages"][-1]["content"] == "Done."


def test_idle_conversations_are_dropped_beyond_a_maximum():
    """Idle conversations beyond the maximum are dropped and loaded from the store on next use."""
    conversations = Conversations(Agent(llm=ScriptedLLM()), store_at(":memory:"), "x")
    first, busy = conversations.find("first"), conversations.find("busy")
    with busy.exclusive():
        for number in range(200):
            conversations.find(str(number))
        assert conversations.find("busy") is busy
    assert conversations.find("first") is not first


def test_state_is_shared(serve, page, tmp_path):
    """Tools change the state of the page, which gets it after each change; the agent's own is where a thread starts."""
    llm = ScriptedLLM(call("add_item", name="tea"), "Added.", call("add_item", name="rice"), "Added.")
    agent = Agent("helper", [add_item], llm=llm, workspace=tmp_path, context=SharedState({"items": ["salt"]}))
    served = serve(agent=agent)
    (seen,) = page(served, {"add": [user("Tea!")]}, state={"items": ["milk"]})
    assert seen["state"] == {"items": ["milk", "tea"]}
    (seen,) = run_steps(served, {"add": [user("Rice!")]}, thread="t2")
    assert seen["state"] == {"items": ["salt", "rice"]}
    assert agent.context.data == {"items": ["salt"]}


def test_open_interrupts_block(serve, page, tmp_path):
    """No run starts until every open interrupt has a valid answer, and an answer is used once."""
    calls = call("send_mail", to="a@x.org"), call("send_mail", to="b@x.org")
    llm = ScriptedLLM(say("Two.", *calls), "Done.")
    served = serve(agent=Agent("helper", [send_mail], llm=llm, workspace=tmp_path))
    (first,) = run_steps(served, {"add": [user("Mail both.")]})
    assert len(first["interrupts"]) == 2
    messages = first["messages"]

    def answered(*resume):
        (seen,) = run_steps(served, {"add": messages, "run": {"resume": [*resume]}})
        return seen["error"] and seen["error"]["code"]

    yes, no = ({"status": "resolved", "payload": {"approved": answer}} for answer in (True, False))
    assert answered() == "not_answered"
    assert answered({"interruptId": "call_1_1", **yes}) == "not_answered"
    both = {"interruptId": "call_1_1", **yes}, {"interruptId": "call_1_2", **no}
    assert answered(*both, {"interruptId": "call_1_3", **yes}) == "not_answered"
    assert answered(both[0], {**both[1], "payload": {"approved": "yes"}}) == "invalid_value"
    assert len(llm.requests) == 1
    assert answered(*both) is None
    assert answered(*both) == "not_waiting"
    assert len(llm.requests) == 2


def test_messages_have_no_empty_chunks():
    """Blank text before a response is not sent, and reasoning chunks form one message."""
    translation = AGUITranslation(set())
    types = [each.type.value for event in (TextDelta("\n\n"), TextDelta("Hi")) for each in translation.events(event)]
    assert types == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    translation = AGUITranslation(set())
    reasoning = [each for text in "ab" for each in translation.events(ReasoningDelta(text))]
    assert len({each.message_id for each in reasoning}) == 1
    assert len(reasoning) == 4


def test_text_and_reasoning_do_not_overlap():
    """Text ends before reasoning starts, reasoning ends before text starts, and both end with the response."""
    translation = AGUITranslation(set())
    given = (
        ReasoningDelta("a"),
        TextDelta("b"),
        ReasoningDelta("c"),
        ResponseReceived(Response(AssistantMessage("b"))),
    )
    types = [each.type.value for event in given for each in translation.events(event)]
    reasoning = [
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_MESSAGE_END", "REASONING_END"),
    ]
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert types == [*reasoning, *text, *reasoning]


def test_failure_is_an_error_event(serve, page):
    """A failed run sends an error event, and the thread accepts another prompt."""
    served = serve(Rejected("The model is out of order."), "Fine now.")
    first, second = page(served, {"add": [ASKED]}, {})
    assert "out of order" in first["error"]["message"]
    assert first["types"][-1] == "RUN_ERROR"
    assert second["messages"][-1]["content"] == "Fine now."


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"messages": "none"}, 400),
        ({"threadId": ""}, 409),
        ({"tools": [{"name": "a b", "description": ""}]}, "invalid_value"),
        ({"tools": [{"name": "calculator", "description": "mine"}]}, "invalid_value"),
        ({"messages": []}, "invalid_value"),
        (
            {"messages": [{**ASKED, "content": [{"type": "audio", "source": {"type": "url", "value": "x"}}]}]},
            "invalid_value",
        ),
        (
            {
                "messages": [
                    {**ASKED, "content": [{"type": "image", "source": {"type": "url", "value": "/etc/passwd"}}]}
                ]
            },
            "invalid_value",
        ),
        ({"resume": [{"interruptId": "call_1_1", "status": "resolved"}]}, "not_waiting"),
    ],
)
def test_invalid_request_is_rejected(serve, change, status):
    """An invalid request is rejected before the model is called."""
    served = serve(tools=core_tools)
    answer = served.ask("POST", "/ag-ui", {"threadId": "t", "runId": "r", "messages": [ASKED], **change})
    if answer.status != 200:
        assert answer.status == status
        return
    last = json.loads(answer.body.decode().split("data: ")[-1])
    assert (last["type"], last["code"]) == ("RUN_ERROR", status)


def test_token_is_required(serve):
    """A request without the token returns 401."""
    document = {"threadId": "t", "runId": "r", "messages": [ASKED]}
    assert serve().ask("POST", "/ag-ui", document, token=False).status == 401

"""Tests for ACP: an editor works with an agent through the official client."""

import asyncio
import contextlib
import os
import socket
import sys
import threading
from types import SimpleNamespace

import pytest
from acp import PROTOCOL_VERSION, RequestError, image_block, spawn_agent_process, text_block
from acp.core import AgentSideConnection, ClientSideConnection
from acp.helpers import audio_block, embedded_blob_resource, embedded_text_resource, resource_block, resource_link_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from agentkit import Agent, Limits, core_tools, system_tools, tool, web_tools
from agentkit.decisions import Decision, Verdict
from agentkit.errors import Rejected
from agentkit.messages import AssistantMessage, SystemMessage, ToolCall
from agentkit.safety.approval import WORDS, Approval, ApprovalRequest
from agentkit.server.acp import _TOOL_KINDS, EditorAgent, _history
from agentkit.sessions.stores import store_at
from agentkit.testing import FakeServer, ScriptedLLM, call, say
from agentkit.tools.files import file_tools
from agentkit.tools.human import ask_user_tool


def test_tools_for_files_programs_and_the_web_have_icons():
    """Every tool that accesses files, programs or the web has the kind of its icon."""
    assert [each.name for each in (*file_tools, *system_tools, *web_tools) if each.name not in _TOOL_KINDS] == []


class Editor:
    """A client that records all updates and answers each permission request with the next given option."""

    def __init__(self, *chosen):
        self.chosen, self.updates, self.asked = list(chosen), [], []

    async def session_update(self, update, **_):
        """Record an update."""
        self.updates.append(update)

    async def request_permission(self, tool_call, options, **_):
        """Choose an option; None cancels."""
        self.asked.append(SimpleNamespace(call=tool_call, options={each.option_id: each.kind for each in options}))
        chosen = self.chosen.pop(0)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def text(self, kind="agent_message_chunk"):
        """Return the text of the updates of a kind."""
        return "".join(each.content.text for each in self.updates if each.session_update == kind)

    def calls(self):
        """Return each call with its states and last content."""
        seen = {}
        for each in self.updates:
            if each.session_update in ("tool_call", "tool_call_update"):
                known = seen.setdefault(each.tool_call_id, SimpleNamespace(states=[], title="", kind="", content=[]))
                known.states.append(each.status)
                known.title, known.kind = each.title or known.title, each.kind or known.kind
                known.content = each.content or known.content
        return list(seen.values())


@contextlib.asynccontextmanager
async def connected(editor, agent, store=None):
    """Return the editor's connection to an agent, over a pair of sockets."""
    served = EditorAgent(agent, store or store_at(":memory:"))
    actual, reference = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=actual)
    other_reader, other_writer = await asyncio.open_connection(sock=reference)
    client = ClientSideConnection(editor, writer, reader)
    server = AgentSideConnection(served, other_writer, other_reader, listening=True)
    try:
        yield client
    finally:
        await served.close()
        await client.close()
        await server.close()
        for each in (writer, other_writer):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()


def talk(editor, agent, folder, *prompts, store=None):
    """Send prompts in a new session and return the responses and the session id."""

    async def talked():
        async with connected(editor, agent, store) as client:
            await client.initialize(protocol_version=PROTOCOL_VERSION)
            session = await client.new_session(cwd=str(folder), mcp_servers=[])
            received = []
            for prompt in prompts:
                blocks = [text_block(prompt)] if isinstance(prompt, str) else prompt
                received.append(await client.prompt(session_id=session.session_id, prompt=blocks))
            return received, session.session_id

    return asyncio.run(talked())


def test_editor_gets_text_reasoning_and_calls(tmp_path):
    """The editor gets the answer and the reasoning as they are written, and each call with its states."""
    lines = say("I calculate.", call("calculator", expression="6*7"), reasoning="Hm."), "It is 42."
    editor = Editor()
    (done,), _ = talk(editor, Agent("helper", core_tools, llm=ScriptedLLM(*lines)), tmp_path, "How much is 6*7?")
    assert done.stop_reason == "end_turn"
    assert done.usage.total_tokens == 30
    assert editor.text() == "I calculate.\n\nIt is 42."
    assert editor.text("agent_thought_chunk") == "Hm."
    (used,) = editor.calls()
    assert used.title == 'calculator(expression="6*7")'
    assert used.states == ["pending", "in_progress", "completed"]
    assert "42" in used.content[-1].content.text


def test_long_results_are_truncated(tmp_path):
    """An editor gets the first 20,000 characters of a result, with a note of how many are missing."""

    def read() -> str:
        """Read it."""
        return "x" * 20_005

    editor = Editor()
    talk(editor, Agent("helper", [read], llm=ScriptedLLM(call("read"), "Done.")), tmp_path, "Go!")
    (shown,) = editor.calls()
    assert shown.content[0].content.text == f"{'x' * 20_000}\n[… 5 more characters are not shown …]"


@pytest.mark.parametrize(("chosen", "is_written"), [("once", True), ("no", False), (None, False), ("run", True)])
def test_changes_are_approved_with_their_diff(tmp_path, chosen, is_written):
    """The person at the editor sees the diff, in the editor's folder, and decides; the calls keep the diff."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    lines = call("edit_file", path="a.txt", old_text="two", new_text="three"), "Done."
    agent = Agent("helper", file_tools, llm=ScriptedLLM(*lines), safety="network", approve=lambda _: True)
    editor = Editor(chosen)
    talk(editor, agent, tmp_path, "Three!")
    (request,) = editor.asked
    shown = request.call.content[0]
    assert (shown.path, shown.old_text, shown.new_text) == (str(tmp_path / "a.txt"), "one\ntwo\n", "one\nthree\n")
    assert request.options["once"] == "allow_once"
    assert request.options["always"] == "allow_always"
    assert request.options["no"] == "reject_once"
    assert (tmp_path / "a.txt").read_text() == ("one\nthree\n" if is_written else "one\ntwo\n")
    (used,) = editor.calls()
    assert (used.kind, used.states[0], used.states[-1]) == ("edit", "pending", "completed" if is_written else "failed")
    assert (used.content[0].type == "diff") is is_written


def test_changes_that_need_no_approval_show_their_diff(tmp_path):
    """A new file written without approval is shown as a diff without an old text."""
    lines = call("write_file", path="new.txt", content="hello\n"), "Done."
    editor = Editor()
    talk(editor, Agent("helper", file_tools, llm=ScriptedLLM(*lines), safety="system"), tmp_path, "Write.")
    (used,) = editor.calls()
    assert (used.content[0].old_text, used.content[0].new_text) == (None, "hello\n")
    assert (tmp_path / "new.txt").read_text() == "hello\n"


def test_approval_can_last_for_the_conversation(tmp_path):
    """An "Always allow" lasts for the conversation, and an option that was not offered counts as no."""
    (tmp_path / "a.txt").write_text("one\n")
    lines = [call("write_file", path="a.txt", content=text) for text in ("two", "three")]
    editor = Editor("workspace")
    agent = Agent("helper", file_tools, llm=ScriptedLLM(lines[0], "Done.", lines[1], "Done."))
    talk(editor, agent, tmp_path, "Two!", "Three!")
    assert len(editor.asked) == 1
    assert (tmp_path / "a.txt").read_text() == "three"
    editor = Editor("impossible")
    talk(editor, Agent("helper", file_tools, llm=ScriptedLLM(lines[0], "Done.")), tmp_path, "Two!")
    assert (tmp_path / "a.txt").read_text() == "three"


def test_question_is_answered_by_the_next_prompt(tmp_path):
    """A question of the agent ends the turn, and the next prompt is its answer."""
    llm = ScriptedLLM(call("ask_user", question="Which one?"), "The red one.")
    editor = Editor()
    talk(editor, Agent("helper", [ask_user_tool()], llm=llm), tmp_path, "Choose.", "red")
    assert "Which one?" in editor.text()
    assert editor.text().endswith("The red one.")
    assert llm.requests[1].messages[-1].content == "red"


def test_prompts_have_images_and_resources(tmp_path):
    """Images, linked and embedded resources reach the model, and audio is rejected."""
    picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    llm = ScriptedLLM("Seen.")
    blocks = [
        text_block("Look."),
        image_block(picture, "image/png"),
        resource_link_block("a.py", "file:///a.py"),
        resource_block(embedded_text_resource("file:///b.py", "x = 1")),
        resource_block(embedded_blob_resource("file:///c.png", picture)),
    ]
    talk(Editor(), Agent("helper", llm=llm), tmp_path, blocks)
    first, image, link, text, blob = llm.requests[0].messages[-1].content
    assert (first, link, text) == ("Look.", "a.py: file:///a.py", "file:///b.py:\nx = 1")
    assert image.url == blob.url == f"data:image/png;base64,{picture}"
    with pytest.raises(RequestError, match="type 'audio'"):
        talk(Editor(), Agent("helper", llm=ScriptedLLM("unused")), tmp_path, [audio_block("aGk=", "audio/wav")])


def test_loading_a_session_replays_its_history(tmp_path):
    """Loading a stored session sends the editor its messages and tool calls."""
    store = store_at(tmp_path / "sessions.db")
    first = ScriptedLLM(say("Wait.", call("calculator", expression="6*7")), "It is 42.")
    _, session = talk(Editor(), Agent("helper", core_tools, llm=first), tmp_path, "How much is 6*7?", store=store)
    editor, llm = Editor(), ScriptedLLM("42, as said.")

    async def loaded():
        async with connected(editor, Agent("helper", core_tools, llm=llm), store) as client:
            await client.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            await asyncio.sleep(0.1)
            history = editor.text("user_message_chunk"), editor.text(), editor.calls()[0].states
            await client.prompt(session_id=session, prompt=[text_block("Again?")])
            with pytest.raises(RequestError):
                await client.load_session(cwd=str(tmp_path), session_id="unknown", mcp_servers=[])
            return history

    assert asyncio.run(loaded()) == ("How much is 6*7?", "Wait.It is 42.", ["pending", "completed"])
    assert len(llm.requests[0].messages) == 5


def test_prompt_can_be_cancelled(tmp_path):
    """Cancelling stops the run and keeps the session usable; a second concurrent prompt is rejected."""
    started = threading.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "over"

    editor, agent = Editor(), Agent("helper", [tool(wait)], llm=ScriptedLLM(call("wait"), "Fine."))

    async def talked():
        async with connected(editor, agent) as client:
            session = (await client.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            prompt = asyncio.create_task(client.prompt(session_id=session, prompt=[text_block("Wait.")]))
            await asyncio.to_thread(started.wait, 20)
            with pytest.raises(RequestError):
                await client.prompt(session_id=session, prompt=[text_block("Now?")])
            await client.cancel(session_id=session)
            stopped = (await prompt).stop_reason
            await client.cancel(session_id=session)
            done = await client.prompt(session_id=session, prompt=[text_block("And now?")])
            return stopped, done.stop_reason

    assert asyncio.run(talked()) == ("cancelled", "end_turn")
    assert editor.text() == "Fine."


def test_runs_end_with_the_connection(tmp_path):
    """The running prompt is stopped when the editor disconnects."""
    started, stopped = threading.Event(), threading.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "over"

    async def left():
        async with connected(Editor(), Agent("helper", [tool(wait)], llm=ScriptedLLM(call("wait")))) as client:
            session = (await client.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            prompt = asyncio.create_task(client.prompt(session_id=session, prompt=[text_block("Wait.")]))
            await asyncio.to_thread(started.wait, 20)
        await asyncio.gather(prompt, return_exceptions=True)

    asyncio.run(left())
    assert stopped.wait(20)


def test_question_waits_for_the_next_prompt(tmp_path):
    """A question that needs text is not sent as a permission request."""
    question = ApprovalRequest("helper", "ask_user", {}, Decision(Verdict.ASK, WORDS, "Which one?"))
    served = EditorAgent(Agent(llm=ScriptedLLM()), store_at(":memory:"))
    assert asyncio.run(served._ask("s", served._open("s", str(tmp_path)), question)) is Approval.LATER


def test_handoffs_and_calls_alone_are_shown(tmp_path):
    """Calls of unlisted tools and stored calls without text are shown."""
    other = Agent("clerk", llm=ScriptedLLM("Clerk here."))
    editor = Editor()
    agent = Agent("helper", handoffs=[other], llm=ScriptedLLM(call("hand_off_to_clerk")))
    talk(editor, agent, tmp_path, "The clerk, please.")
    assert editor.calls()[0].states == ["pending", "in_progress", "completed"]
    stored = [SystemMessage("s"), AssistantMessage("", (ToolCall("c", "calculator", "{}"),))]
    assert [each.title for each in _history(stored, agent, {})] == ["calculator()"]


def test_stop_reasons_of_runs(tmp_path):
    """A limit is reported as a stop reason, and a failed run as an error."""
    limited = Agent("helper", core_tools, max_iterations=1, llm=ScriptedLLM(call("calculator", expression="1"), "Cut."))
    assert talk(Editor(), limited, tmp_path, "Count.")[0][0].stop_reason == "max_turn_requests"
    tokens = Limits(total_tokens=10)
    short = Agent("helper", core_tools, llm=ScriptedLLM(call("calculator", expression="1"), "One."), limits=tokens)
    assert talk(Editor(), short, tmp_path, "Count.")[0][0].stop_reason == "max_tokens"
    with pytest.raises(RequestError, match="out of order"):
        talk(Editor(), Agent("helper", llm=ScriptedLLM(Rejected("It is out of order."))), tmp_path, "Hi")


def test_command_serves_an_editor(tmp_path):
    """`agentkit acp` speaks with the official client over its pipes, and writes nothing else to them."""
    editor = Editor("once")

    async def talked(server):
        env = {**os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k", "AGENTKIT_MODEL": "m"}
        store = f"--store={tmp_path / 'sessions.db'}"
        command = sys.executable, "-m", "agentkit", "acp", "-t", "core,files", store
        async with spawn_agent_process(editor, *command, env=env, cwd=tmp_path) as (client, process):
            about = await client.initialize(protocol_version=PROTOCOL_VERSION)
            session = await client.new_session(cwd=str(tmp_path), mcp_servers=[])
            done = await client.prompt(session_id=session.session_id, prompt=[text_block("Write.")])
            process.stdin.close()
            return about.agent_info.name, done.stop_reason, await asyncio.wait_for(process.wait(), 30)

    with FakeServer(call("write_file", path="a.txt", content="hi"), "Written.") as server:
        assert asyncio.run(talked(server)) == ("agentkit", "end_turn", 0)
    assert (tmp_path / "a.txt").read_text() == "hi"
    assert editor.text() == "Written."

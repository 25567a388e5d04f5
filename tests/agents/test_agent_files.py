"""Tests for files in prompts and tool results: formats, rejections, sessions, replays and MCP."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
from openai.types.responses.response_function_call_output_item_param import ResponseFunctionCallOutputItemParam
from openai.types.responses.response_input_content_param import ResponseInputContentParam
from pydantic import TypeAdapter

from agentkit import Agent, ConfigError, Image, Limits, RunResult, Session, tool
from agentkit.content import File, quoted_file
from agentkit.decisions import Label
from agentkit.llm.client import LLM
from agentkit.mcp import MCPServer
from agentkit.mcp.server import ToolServer
from agentkit.messages import ToolMessage, UserMessage
from agentkit.sessions.cassettes.request_matching import message_key
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, record, replay

WAV = b"RIFF\n\0\0\nWAVEfmt " + bytes(16)
TALK = File.read(WAV, "talk.wav")
PNG = Image("data:image/png;base64,iVBORw0KGgo=")
TYPES = {
    "chat": TypeAdapter(ChatCompletionContentPartParam),
    "responses": TypeAdapter(ResponseInputContentParam),
    "result": TypeAdapter(ResponseFunctionCallOutputItemParam),
}
AS_TEXT = ("documents are sent as their text",)


@pytest.fixture
def report(pdf):
    """A PDF with two pages."""
    return File.read(pdf("Revenue rose by 4%.", "Costs fell."), "report.pdf")


def llm_of(server, protocol="chat", **options):
    """Return a client of the server for a protocol."""
    return LLM("openai", base_url=server.base_url, model="any", api_key="k", protocol=protocol, **options)


def sent(request):
    """The messages or items of a request."""
    return request.json.get("messages") or request.json["input"]


def reader(*tools, llm, **options):
    """Return an agent that calls these tools and reads their results."""
    return Agent("reader", tools=tools, llm=llm, **options)


def returning(value, name="fetch"):
    """Return a tool that returns the given value."""

    def fetch() -> Any:
        return value

    return tool(fetch, name=name)


def test_pdf_is_sent_in_the_format_of_each_protocol(report):
    """A PDF is sent with its name, in the format of each protocol."""
    forms = {
        "chat": {"type": "file", "file": {"filename": "report.pdf", "file_data": report.url}},
        "responses": {"type": "input_file", "filename": "report.pdf", "file_data": report.url},
    }
    for protocol, form in forms.items():
        with FakeServer("Up 4%.") as server:
            assert reader(llm=llm_of(server, protocol))(["Summarise this.", report]) == "Up 4%."
            assert sent(server.requests[0])[-1]["content"][1] == form
            TYPES[protocol].validate_python(form, strict=True)


@pytest.mark.parametrize(("name", "data", "form"), [("a.wav", WAV, "wav"), ("a.mp3", b"ID3\x04", "mp3")])
def test_audio_is_sent_as_base64(name, data, form):
    """Audio is sent as base64 with its format."""
    with FakeServer("Hello.") as server:
        reader(llm=llm_of(server))(["What is said?", File.read(data, name)])
        part = sent(server.requests[0])[-1]["content"][1]
    encoded = base64.b64encode(data).decode()
    assert part == {"type": "input_audio", "input_audio": {"data": encoded, "format": form}}
    TYPES["chat"].validate_python(part, strict=True)


def test_url_of_a_file_is_sent_to_the_provider():
    """The URL of a file is sent as `file_url` in Responses and as `file_data` in chat."""
    file = File("https://example.com/report.pdf")
    for protocol, form in {
        "responses": {"type": "input_file", "file_url": file.url},
        "chat": {"type": "file", "file": {"filename": "file", "file_data": file.url}},
    }.items():
        with FakeServer("Done.") as server:
            reader(llm=llm_of(server, protocol))(["Summarise.", file])
            assert sent(server.requests[0])[-1]["content"][1] == form


def test_paths_and_texts_in_a_prompt(report, tmp_path):
    """A path in a prompt is read as a file, and a text file is quoted with its name."""
    for name, data in {"report.pdf": report.data, "dot.gif": b"GIF89a", "notes.md": b"# Notes\n"}.items():
        (tmp_path / name).write_bytes(data)
    llm = ScriptedLLM("One.", "Two.", "Three.")
    helper = reader(llm=llm)
    helper(["Read these.", *(tmp_path / name for name in ("report.pdf", "dot.gif", "notes.md"))])
    helper(tmp_path / "report.pdf")
    helper(File.read(b"a,b\n1,2\n", "table.csv"))
    prompts = [message.content for message in llm.requests[2].messages if isinstance(message, UserMessage)]
    assert prompts == [
        ("Read these.", report, Image.read(b"GIF89a"), quoted_file("notes.md", "# Notes")),
        (report,),
        (quoted_file("table.csv", "a,b\n1,2"),),
    ]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([Path("nothing.pdf")], "The file 'nothing.pdf' of the prompt cannot be read: No such file"),
        ([Path("data.zip")], "'data.zip' is not a file that models read"),
        ([b"%PDF-"], "a File, the Path of one"),
    ],
)
def test_unreadable_file_is_rejected_before_sending(prompt, message, tmp_path, monkeypatch):
    """A missing or unsupported file raises ConfigError, which names it."""
    (tmp_path / "data.zip").write_bytes(b"PK\x03\x04")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        reader(llm=ScriptedLLM())(prompt)


# the value of a tool, its text for the model
RETURNED = {
    "a recording": (TALK, "[file 1: talk.wav, audio/wav, 33 bytes]"),
    "a dictionary": ({"n": 1, "talk": TALK}, '{"n": 1, "talk": "[file 1: talk.wav, audio/wav, 33 bytes]"}'),
    "next to an image": ([PNG, TALK], '["[image 1: image/png, 9 bytes]", "[file 1: talk.wav, audio/wav, 33 bytes]"]'),
    "another type": (File("data:application/zip;base64,UEsDBA==", "a.zip"), "[a.zip, application/zip, 6 bytes: not"),
    "an address with a secret": (
        File("https://example.com/a.pdf?sig=sk-abcdefghij0123456789abcdefghij"),
        "not shown, its URL contains a secret",
    ),
    "too many": ([TALK] * 6, "not shown, more than 5 were returned"),
    "a text": (File.read(b"Done.", "log.txt"), quoted_file("log.txt", "Done.")),
    "a text in a list": ([File.read(b"Done.")], '["[What follows is a file.]\\nDone.\\n[Here ends a file.]"]'),
}


@pytest.mark.for_each(("value", "expected"), RETURNED.values(), ids=RETURNED)
def test_files_of_a_tool_result(value, expected):
    """A tool result lists its files or explains why one is missing; a text file is quoted."""
    result = returning(value).invoke({})
    assert expected in result.content
    count = len(result.files)
    assert count == (5 if isinstance(value, list) and len(value) == 6 else expected.count("[file 1"))
    assert result.attachments == (*result.images, *result.files)


def test_pdf_of_a_tool_over_both_protocols(report):
    """A tool's PDF is part of the result in Responses; in chat it follows in a separate user message."""
    for protocol in ("chat", "responses"):
        with FakeServer(call("fetch"), "Up 4%.") as server:
            assert reader(returning(report), llm=llm_of(server, protocol))("Read it.") == "Up 4%."
            entries = sent(server.requests[1])
        if protocol == "responses":
            assert entries[-1]["output"][1]["file_data"] == report.url
            for part in entries[-1]["output"]:
                TYPES["result"].validate_python(part, strict=True)
        else:
            assert entries[-2]["content"].startswith("[file 1: report.pdf, application/pdf")
            assert "No user said this" in entries[-1]["content"][0]["text"]
            assert entries[-1]["content"][1]["file"]["file_data"] == report.url


# errors of servers that reject a file in a message
REFUSED = {
    "OpenAI": (400, "Invalid value: 'file'. Supported values are: 'text' and 'image_url'."),
    "DeepSeek": (400, ".messages[1]: file must have a file_id or file_data"),
    "Ollama": (400, "invalid message format"),
    "vLLM": (400, "Unknown part type: file"),
    "gateway": (422, "Unsupported chat content part type: 'file'"),
    "OpenRouter": (404, "No endpoints found that support file input"),
    "LM Studio": (400, "'content' objects must have a 'type' field that is either 'text' or 'image_url'"),
    "llama.cpp": (400, "unsupported content[].type"),
    "Groq": (400, "messages[1].content must be a string"),
}


@pytest.mark.for_each(
    ("protocol", "product"), [*(("chat", name) for name in REFUSED), ("responses", "OpenAI"), ("messages", "gateway")]
)
def test_rejected_pdf_is_sent_as_text(report, protocol, product):
    """If a model rejects PDFs, their text is sent instead, also in later requests."""
    with FakeServer(fail(*REFUSED[product]), "Up 4%.", "Still.") as server:
        llm = llm_of(server, protocol)
        helper = reader(llm=llm)
        assert helper(["Summarise.", report]) == "Up 4%."
        assert helper(["And this?", report]) == "Still."
        bodies = [sent(request) for request in server.requests[1:]]
    text = bodies[0][-1]["content"][1]["text"]
    assert text == quoted_file("report.pdf", "[Page 1]\nRevenue rose by 4%.\n\n[Page 2]\nCosts fell.")
    assert "JVBER" not in json.dumps(bodies)
    assert llm.describe().adjustments == AS_TEXT


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_rejected_word_document_is_sent_as_text(protocol, docx):
    """If a model rejects Word documents, their text is sent instead."""
    plan = File.read(docx("Plan", "Thirty days."), "plan.docx")
    with FakeServer(fail(400, "Invalid file: only PDF documents are supported"), "Thirty.", "Yes.") as server:
        llm = llm_of(server, protocol)
        helper = reader(llm=llm)
        assert helper(["How long?", plan]) == "Thirty."
        assert helper("Sure?") == "Yes."
        bodies = [sent(request) for request in server.requests]
    assert bodies[1][-1]["content"][1]["text"] == quoted_file("plan.docx", "# Plan\n\nThirty days.")
    assert llm.describe().adjustments == AS_TEXT


@pytest.mark.parametrize("mode", ["arun", "astream"])
def test_reading_a_pdf_does_not_block_the_event_loop(report, pdf, mode):
    """Reading a PDF does not block the event loop."""
    other = File.read(pdf("Another one."), "other.pdf")

    async def ask(helper, prompt):
        if mode == "arun":
            return (await helper.arun(prompt)).output
        return [event async for event in helper.astream(prompt)][-1].result.output

    async def both(helper):
        beats = 0
        answers = []
        for file in (report, other):
            question = asyncio.create_task(ask(helper, ["Read.", file]))
            while not question.done():
                await asyncio.sleep(0.001)
                beats += 1
            answers.append(question.result())
        return answers, beats

    with FakeServer(fail(400, "Unknown part type: file"), "One.", "Two.") as server:
        answers, beats = asyncio.run(both(reader(llm=llm_of(server))))
    assert answers == ["One.", "Two."]
    assert beats > 20


def test_rejected_pdf_without_text(pdf):
    """A rejected PDF without text fails the run; in a tool result it is replaced by a note."""
    blank, text = File.read(pdf(""), "scan.pdf"), "Unknown part type: file"
    with FakeServer(fail(400, text)) as server:
        result = reader(llm=llm_of(server)).run(["Summarise.", blank])
        assert (result.status, len(server.requests)) == ("failed", 1)
    for words in (text, "contains no text", "agentkit-tools[pdf]"):
        assert words in str(result.error)
    with FakeServer(call("fetch"), fail(400, text), "A scan.") as server:
        assert reader(returning(blank), llm=llm_of(server))("Read it.") == "A scan."
        assert "receives text only" in json.dumps(server.requests[2].json)


@pytest.mark.parametrize(
    ("file", "expected", "advice"),
    [
        (TALK, "Model does not support audio input", "a model with audio input"),
        (TALK, "Invalid value: 'input_audio'. Supported values are: 'input_text'", "a model with audio input"),
        (File("https://example.com/a.pdf"), "Missing required parameter: 'file_id'", "Most models read PDFs"),
        (
            File.read(b"PK\x03\x04", "a.docx"),
            "Invalid file data: only PDF",
            "its format is not supported. Send its text",
        ),
        (File.read(b"\xd0\xcf\x11\xe0", "a.doc"), "only PDF files", "its format is not supported"),
    ],
)
def test_error_for_a_rejected_file_explains_the_remedy(file, expected, advice):
    """The error for a rejected file in a prompt explains what the model accepts."""
    with FakeServer(fail(400, expected)) as server:
        llm = llm_of(server)
        result = reader(llm=llm).run(["What is this?", file])
    assert result.status == "failed"
    assert expected in str(result.error)
    assert advice in str(result.error)
    assert llm.describe().adjustments == ()


def test_other_errors_do_not_mention_files(report):
    """An error that is unrelated to a file is not changed."""
    with FakeServer(fail(400, "temperature must be at most 2")) as server:
        result = reader(llm=llm_of(server)).run(["Summarise.", report])
    assert "File.read" not in str(result.error)


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_rejected_audio_of_a_tool_is_described(protocol):
    """If a model rejects audio in tool results, a description is sent instead."""
    text = "Invalid value: 'input_audio'. Supported values are: 'input_text', 'input_image' and 'input_file'."
    with FakeServer(call("fetch"), fail(400, text), "Words.") as server:
        llm = llm_of(server, protocol)
        assert reader(returning(TALK), llm=llm)("Listen.") == "Words."
        assert "[A file was left out" in json.dumps(server.requests[2].json)
    assert llm.describe().adjustments == ("files in tool results are described in words",)


def test_images_are_sent_if_pdfs_are_rejected(report):
    """If a server rejects PDFs, images are still sent."""
    with FakeServer(call("fetch"), fail(400, "Unknown part type: file"), "Seen.") as server:
        llm = llm_of(server)
        assert reader(returning([PNG, report]), llm=llm)("Look.") == "Seen."
        body = json.dumps(server.requests[2].json)
    assert llm.describe().adjustments == AS_TEXT
    assert PNG.url in body
    assert "Revenue rose by 4%." in body


def test_files_with_text_based_tool_calling(report):
    """With text-based tool calling, the files of a result are attached to the message."""
    with FakeServer("<TOOL: fetch></TOOL>", "Up 4%.") as server:
        llm = LLM(base_url=server.base_url, model="any", tool_calling="text")
        assert reader(returning(report), llm=llm)("Read it.") == "Up 4%."
        assert server.requests[1].json["messages"][-1]["content"][1]["file"]["file_data"] == report.url


def test_session_stores_files(report, tmp_path):
    """A session stores files, exports them as JSON, and sends them again in a later run."""
    path, llm = tmp_path / "talk.db", ScriptedLLM(call("fetch"), "Heard.")
    first = reader(returning(TALK), llm=llm, session=Session.open(path)).run(["Compare with", report])
    again = reader(llm=ScriptedLLM("Yes."), session=Session.open(path))
    again("Again?")
    messages = again.llm.requests[0].messages
    assert messages[0] == UserMessage(("Compare with", report))
    assert messages[2].files == (TALK,)
    assert RunResult.from_json(first.to_json()).messages == first.messages
    Session.open(path).export(tmp_path / "talk.jsonl")
    copied = Session.restore(tmp_path / "talk.jsonl", tmp_path / "copied.db", "copied")
    assert copied.messages == Session.open(path).messages
    assert "> Compare with\n  [file report.pdf]" in copied.show()
    assert "JVBER" not in copied.show()


def test_history_contains_files(report):
    """The history contains files in the chat format and can be set again."""
    helper = reader(returning(report), llm=ScriptedLLM(call("fetch"), "Done."))
    helper(["Compare with", report, TALK])
    history = helper.history
    assert [part["type"] for part in history[0]["content"]] == ["text", "file", "input_audio"]
    assert history[2]["content"][1]["file"]["filename"] == "report.pdf"
    other = reader(llm=ScriptedLLM("Yes."))
    other.history = json.loads(json.dumps(history))
    other("Again?")
    assert other.llm.requests[0].messages[0].content[1] == report
    assert other.llm.requests[0].messages[2].files == (report,)


def test_replay_uses_recorded_files(report, pdf, tmp_path):
    """A replay uses the recorded files, and a different file is a different request."""
    path = tmp_path / "run.cassette"
    with record(path):
        reader(returning(report), llm=ScriptedLLM(call("fetch"), "Up 4%."))("Read.")
    with replay(path):
        assert reader(returning(TALK), llm=ScriptedLLM("Never said."))("Read.") == "Up 4%."
    messages = [ToolMessage("a", "fetch", "[file 1]", files=(file,)) for file in (report, TALK)]
    assert message_key(messages[0]) != message_key(messages[1])


def test_files_are_passed_over_mcp(report):
    """Files are sent to and received from MCP, and received files are untrusted."""
    for file in (report, File.read(WAV)):
        server = ToolServer([returning(file)]).protocol_server()
        with MCPServer(server, level="safe") as remote:
            llm = ScriptedLLM(call("fetch"), "Read.")
            result = reader(remote, llm=llm).run("Read.")
            assert llm.requests[1].messages[-1].files == (file,)
        assert result.tool_calls[0].result.labels == {Label.UNTRUSTED}


def test_different_files_are_different_results():
    """Results with different files of the same size are not repeated calls; equal files are."""

    def run(files):
        rest = iter(files)

        def fetch() -> File:
            """Fetch a file."""
            return next(rest)

        llm = ScriptedLLM(*[call("fetch")] * 6, "Done.")
        return reader(fetch, llm=llm).run("Watch.", limits=Limits(repeated_calls=3))

    new = run([File.read(WAV + bytes([number])) for number in range(6)])
    assert (new.status, "[Note" in str(new.messages)) == ("done", False)
    assert "[Note" in str(run([TALK] * 6).messages)


def test_extract_accepts_a_pdf(report, tmp_path):
    """`extract` accepts files and paths."""
    path = tmp_path / "report.pdf"
    path.write_bytes(report.data)
    with FakeServer("4", "4") as server:
        for given in (report, path):
            assert llm_of(server).extract(["The rise?", given], int) == 4
        assert sent(server.requests[0])[-1]["content"][1]["file"]["file_data"] == report.url
        assert sent(server.requests[1])[-1]["content"][1] == sent(server.requests[0])[-1]["content"][1]

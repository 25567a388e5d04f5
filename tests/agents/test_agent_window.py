"""Tests for conversations longer than the context window: shortening, summaries, and `read_more`."""

import time
from dataclasses import replace

import pytest

from agentkit import LLM, Agent, Limits
from agentkit.decisions import Label
from agentkit.errors import Unreachable
from agentkit.events import RequestFailed, Summarised
from agentkit.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.sessions.token_estimates import Estimates
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say
from agentkit.tooling.tool import Tool
from agentkit.usage import Usage

MODES = ["run", "arun", "stream", "astream"]


def look(number: int) -> str:
    """Look something up."""
    return f"Entry {number}: " + "word " * 400


def answer(request):
    """Look something up for each prompt, then answer; the reported usage equals the estimate."""
    usage = Usage(tokens_of(request), 20, requests=1)
    if isinstance(request.messages[-1], ToolMessage):
        return say("It is found.", usage=usage)
    return say("", call("look", number=len(request.messages)), usage=usage)


def tokens_of(request):
    """Return the estimated number of tokens of a request."""
    return Estimates().total(request.messages, request.instruction, request.tools)


def counted(*lines):
    """Add usage to the lines, as reported by a server that counts tokens as estimated."""

    def say_counted(line):
        def record(request):
            response = say(line) if isinstance(line, str) else say("", line)
            return replace(response, usage=Usage(tokens_of(request), 20, requests=1))

        return record

    return [say_counted(line) for line in lines]


def faults_of(messages):
    """Return the faults of a request: calls without a result and results without a call."""
    faults, waiting = [], []
    for message in messages:
        if isinstance(message, ToolMessage):
            faults += [] if message.call_id in waiting else [f"no call for {message.call_id}"]
            waiting = [call_id for call_id in waiting if call_id != message.call_id]
            continue
        faults += [f"no result for {call_id}" for call_id in waiting]
        waiting = [each.id for each in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return faults + waiting


def conversation(exchanges, words=40):
    """Return a session with several earlier exchanges."""
    session = Session()
    messages = []
    for number in range(exchanges):
        messages += [UserMessage(f"Question {number}. " + "word " * words), AssistantMessage(f"Answer {number}.")]
    session.append(messages)
    return session


@pytest.mark.parametrize("mode", MODES)
def test_requests_fit_into_the_window(mode, find_faults, drive):
    """Each request fits in the window, is valid, and contains the newest prompt."""
    agent = Agent("helper", [look], "Be brief.", llm=ScriptedLLM(answer, repeat=True), window=2_000)
    for number in range(12):
        assert drive(agent, mode, f"Question {number}").output == "It is found."
        for request in agent.llm.requests[-2:]:
            assert tokens_of(request) <= 2_000
            assert faults_of(request.messages) == []
            assert any(f"Question {number}" in str(message) for message in request.messages)
            assert request.instruction == "Be brief."
    assert len(agent.messages) == 48
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("mode", MODES)
def test_long_run_fits_into_the_window(mode, drive):
    """In a long run, old results are shortened and old iterations omitted, but not the prompt."""
    lines = [call("look", number=number) for number in range(12)]
    agent = Agent("helper", [look], max_iterations=20, llm=ScriptedLLM(*counted(*lines, "Done.")), window=2_500)
    result = drive(agent, mode, "The only question")
    assert (result.status, len(result.tool_calls)) == ("done", 12)
    for request in agent.llm.requests:
        assert faults_of(request.messages) == []
        assert "The only question" in str(request.messages[0])
        assert tokens_of(request) <= 2_500


# Summaries.


@pytest.mark.parametrize("mode", MODES)
def test_summary_is_requested_once(mode, drive):
    """With `summarise`, a summary is written once and sent with every later request."""
    lines = [say("They spoke of words.", usage=Usage(700, 30, requests=1)), "One.", "Two.", "Three."]
    agent = Agent(
        "helper", llm=ScriptedLLM(*lines), session=conversation(40), window=Window(tokens=2_000, summarise=True)
    )
    received = []
    agent.on(Summarised, received.append)
    results = [drive(agent, mode, f"Newest {number}") for number in range(3)]
    assert [result.output for result in results] == ["One.", "Two.", "Three."]
    (output,) = received
    assert (output.text, output.usage) == ("They spoke of words.", Usage(700, 30, requests=1))
    sent_request, *rest = agent.llm.requests
    assert "Question 0." in sent_request.messages[0].content
    for request in rest:
        assert "They spoke of words." in request.messages[0].content
        assert "Question 0." not in str(request.messages)
        assert faults_of(request.messages) == []
    assert len(agent.messages) == 86


@pytest.mark.parametrize("is_killed", [False, True])
def test_summary_is_used_in_another_process(is_killed, tmp_path):
    """A summary is stored in the session and used by another process."""
    place, window = tmp_path / "trips.db", Window(tokens=2_000, summarise=True)
    session = Session.open(place, "trip")
    session.append(conversation(40).messages)
    first = Agent("helper", llm=ScriptedLLM("They spoke of words.", "One."), session=session, window=window)
    if is_killed:
        stream = first.stream("Newest")
        next(event for event in stream if isinstance(event, Summarised))
        stream.close()
    else:
        first("Newest")
    second = Agent("helper", llm=ScriptedLLM("Two."), session=Session.open(place, "trip"), window=window)
    result = second.resume() if is_killed else second.run("And now?")
    assert result.output == "Two."
    assert "They spoke of words." in second.llm.requests[0].messages[0].content


def test_next_summary_is_based_on_the_previous_one():
    """The next summary is written from the previous one and the messages since then."""
    llm = ScriptedLLM(*counted("First.", *["Word. " * 150] * 5, "Second.", "Last."))
    agent = Agent("helper", llm=llm, session=conversation(40), window=Window(tokens=2_000, summarise=True))
    for number in range(6):
        agent.run(f"Newest {number}")
    summaries = [request for request in agent.llm.requests if "Write the summary" in str(request.messages[0])]
    assert len(summaries) == 2
    assert "First." in summaries[1].messages[0].content
    assert "Question 0." not in summaries[1].messages[0].content
    assert "Second." in str(agent.llm.requests[-1].messages)
    assert "First." not in str(agent.llm.requests[-1].messages)


def test_usage_of_summaries_is_counted():
    """The usage of a summary counts for the run, agent and session, even if it is empty."""
    for text in ("They spoke.", ""):
        llm = ScriptedLLM(say(text, usage=Usage(700, 30, requests=1)), "Done.")
        agent = Agent("helper", llm=llm, session=conversation(40), window=Window(tokens=2_000, summarise=True))
        result = agent.run("Newest")
        assert (result.status, result.usage) == ("done", Usage(710, 35, requests=2))
        assert result.usage == agent.usage == agent.session.usage
        assert ("They spoke." in str(llm.requests[1].messages)) == bool(text)


def test_failed_summary_omits_the_oldest_exchanges():
    """If the summary fails or exceeds a limit, the oldest exchanges are omitted."""
    llm = ScriptedLLM(Unreachable("Down."), "Done.")
    agent = Agent("helper", llm=llm, session=conversation(40), window=Window(tokens=2_000, summarise=True))
    assert agent.run("Newest").status == "done"
    assert "left out here" in agent.llm.requests[1].messages[0].content
    window, limits = Window(tokens=300, summarise=True), Limits(input_tokens=300)
    poor = Agent("poor", llm=ScriptedLLM("Done."), session=conversation(40), limits=limits, window=window)
    assert poor.run("Newest").status == "done"


def test_system_messages_are_sent_with_a_summary():
    """Imported system messages are sent in addition to the summary."""
    session = Session()
    session.append([SystemMessage("Speak like a pirate."), *conversation(40).messages])
    window = Window(tokens=2_000, summarise=True)
    agent = Agent("helper", llm=ScriptedLLM("They spoke.", "Arr."), session=session, window=window)
    agent.run("Newest")
    messages = agent.llm.requests[1].messages
    assert messages[0] == SystemMessage("Speak like a pirate.")
    assert messages[1].content.startswith("[A summary of")


# Rejections by the server.

TOO_LONG = "This model's maximum context length is 3000 tokens. However, your messages resulted in 5000 tokens."
NO_LIMIT_NAMED = "The prompt is too long for this model's context window."


@pytest.mark.for_each("mode", MODES)
@pytest.mark.for_each("protocol", ["chat", "responses"])
def test_conversation_that_is_too_long_is_shortened(protocol, mode, find_faults, drive):
    """A conversation that the server rejects as too long is shortened and sent again."""
    refusal = fail(400, TOO_LONG, code="context_length_exceeded")
    with FakeServer(refusal, say("Here.", usage=None), "And here.") as server:
        llm = LLM(base_url=server.base_url, model="any", protocol=protocol)
        agent = Agent("helper", [look], llm=llm, session=conversation(100))
        first, second = drive(agent, mode, "Where?"), drive(agent, mode, "And where?")
        long, *short = [len(str(request.json)) for request in server.requests]
    assert (first.output, second.output) == ("Here.", "And here.")
    assert max(short) < long * 0.75
    assert len(agent.messages) == 204
    assert find_faults(agent.history) == []


@pytest.mark.parametrize("mode", MODES)
def test_several_attempts_without_a_known_limit(mode, drive):
    """If the server names no limit, up to three shorter requests are sent before the run fails."""
    refusal = fail(400, NO_LIMIT_NAMED)
    with FakeServer(refusal, refusal, refusal, "Here.") as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any"), session=conversation(100))
        assert drive(agent, mode, "Where?").output == "Here."
        lengths = [len(str(request.json)) for request in server.requests]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0] * 0.5
    with FakeServer(*[refusal] * 4) as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any"), session=conversation(100))
        result = drive(agent, mode, "Where?")
    assert (result.status, result.error.is_too_long) == ("failed", True)


def test_prompt_that_is_too_long_is_not_sent_again():
    """A prompt that is too long for the model fails without a second request."""
    refusal = fail(400, TOO_LONG, code="context_length_exceeded")
    with FakeServer(refusal) as server:
        result = Agent("helper", llm=LLM(base_url=server.base_url, model="any")).run("word " * 5_000)
    assert (result.status, result.error.limit_tokens) == ("failed", 3_000)


def test_maximum_answer_counts_toward_the_window():
    """A shorter answer is requested if the server counts the answer toward the window."""
    refusal = fail(400, "This model's maximum context length is 8192 tokens. However, you requested 16984 tokens.")
    with FakeServer(refusal, "Here.", "And here.") as server:
        agent = Agent("helper", llm=LLM(base_url=server.base_url, model="any"), limits=Limits(output_tokens=100_000))
        assert [agent.run("Where?").output, agent.run("And where?").output] == ["Here.", "And here."]
        assert [request.json["max_tokens"] for request in server.requests] == [16_384, 2_048, 2_048]
        assert [len(request.json["messages"]) for request in server.requests] == [2, 2, 4]


def test_shortened_final_request_has_no_tools():
    """A shortened request for the final answer has the same order and no tools."""
    refusal = fail(400, TOO_LONG, code="context_length_exceeded")
    with FakeServer(call("look", number=1), refusal, "So far.") as server:
        llm = LLM(base_url=server.base_url, model="any")
        agent = Agent("helper", [look], max_iterations=1, llm=llm, session=conversation(100))
        assert agent.run("Where?").output == "So far."
        again = server.requests[2].json
    assert "tools" not in again
    assert "Answer now" in again["messages"][0]["content"]


def test_shortened_request_respects_the_time_limit():
    """A shortened request is not sent after the time limit."""
    with FakeServer(fail(400, TOO_LONG, code="context_length_exceeded")) as server:
        llm = LLM(base_url=server.base_url, model="any")
        agent = Agent("helper", llm=llm, session=conversation(100), limits=Limits(seconds=1))
        agent.on(RequestFailed, lambda _: time.sleep(1.1))
        result = agent.run("Where?")
    assert (result.status, result.limit) == ("limit", "seconds")


# Reading the rest of truncated output.


def report(lines: int = 2_000) -> str:
    """Write a long report."""
    return "\n".join(f"line {number}: word" for number in range(lines))


def offers(request):
    """Return whether a request offers `read_more`."""
    return "read_more" in [spec.name for spec in request.tools]


@pytest.mark.parametrize("mode", MODES)
def test_truncated_output_is_read_by_its_handle(mode, drive):
    """A truncated result can be read with `read_more`, which is offered from then on."""
    read = call("read_more", handle="call_1_1", find="line 1500:")
    llm = ScriptedLLM(call("report"), read, "Found.", call("read_more", handle="call_1_1", start=-30), "Found again.")
    agent = Agent("helper", [Tool(report, max_chars=1_000)], llm=llm)
    first, second = drive(agent, mode), drive(agent, mode)
    assert "line 1500: word" in first.tool_calls[1].result.content
    assert second.tool_calls[0].result.content.endswith("line 1999: word")
    assert 'read_more(handle="call_1_1"' in llm.requests[1].messages[-1].content
    assert [offers(request) for request in llm.requests] == [False, True, True, True, True]


def test_read_more_is_offered_only_if_needed():
    """`read_more` is not offered unless some output was truncated."""
    llm = ScriptedLLM(call("look", number=1), "Done.")
    Agent("helper", [look], llm=llm).run("go")
    assert [offers(request) for request in llm.requests] == [False, False]


def test_output_shortened_by_the_window_can_be_read():
    """An output that the window shortened can be read with `read_more`."""
    lines = [line for number in range(6) for line in (call("look", number=number), "Found.")]
    llm = ScriptedLLM(*counted(*lines, call("read_more", handle="call_1_1", start=-100), "Read."))
    agent = Agent("helper", [look], llm=llm, window=Window(tokens=8_000, keep_results=1))
    for number in range(6):
        agent.run(f"Question {number}")
    assert not any(map(offers, llm.requests))
    narrow = Agent("narrow", [look], llm=llm, session=agent.session, window=Window(tokens=3_000, keep_results=1))
    result = narrow.run("What was the first?")
    assert offers(llm.requests[-2])
    assert 'read_more(handle="call_1_1")' in str(llm.requests[-2].messages)
    assert result.tool_calls[0].result.content.endswith("word word ")


def test_result_of_read_more_keeps_the_labels():
    """The result of `read_more` has the labels of the output that it reads."""
    tool = Tool(report, max_chars=1_000, labels={Label.PRIVATE})
    llm = ScriptedLLM(call("report"), call("read_more", handle="call_1_1"), "Done.")
    result = Agent("helper", [tool], llm=llm).run("go")
    assert Label.PRIVATE in result.tool_calls[1].result.labels


@pytest.mark.parametrize("mode", MODES)
def test_output_of_a_concurrent_run_cannot_be_read(mode, drive):
    """`read_more` cannot read an output of a concurrent run."""
    session = Session()

    def meanwhile(request):
        other = ScriptedLLM(call("report"), "Done.")
        Agent("other", [Tool(report, max_chars=1_000, labels={Label.PRIVATE})], llm=other, session=session).run("go")
        return call("read_more", handle="call_1_1_2")

    llm = ScriptedLLM(call("report", lines=1_500), meanwhile, "Done.", call("read_more", handle="call_1_1_2"), "Read.")
    agent = Agent("helper", [Tool(report, max_chars=1_000)], llm=llm, session=session)
    assert "No output is stored under the handle" in drive(agent, mode).tool_calls[1].result.content
    read = drive(agent, mode).tool_calls[0].result
    assert read.content.startswith("[characters 0")
    assert Label.PRIVATE in read.labels


def test_tool_of_the_user_is_not_replaced():
    """A user's own tool named `read_more` is not replaced."""

    def read_more(handle: str) -> str:
        """Read in my own way."""
        return f"mine: {handle}"

    llm = ScriptedLLM(call("report"), call("read_more", handle="x"), "Done.")
    result = Agent("helper", [Tool(report, max_chars=1_000), read_more], llm=llm).run("go")
    assert result.tool_calls[1].result.content == "mine: x"


def test_final_request_mentions_no_handles():
    """A final request offers no tools and mentions no handles."""
    llm = ScriptedLLM(call("look", number=1), call("look", number=2), "So far.")
    agent = Agent("helper", [look], max_iterations=2, llm=llm, window=Window(tokens=900, keep_results=0))
    assert agent.run("go").output == "So far."
    assert llm.requests[-1].tools == ()
    assert "read_more" not in str(llm.requests[-1].messages)

"""Tests for guardrails: checks that pass, change or refuse prompts and answers."""

import asyncio
import functools
import pickle
import threading
import time
from dataclasses import dataclass

import pytest

from agentkit import LLM, Agent, ConfigError, Image, Limits, RunError, TextDelta
from agentkit.errors import GuardrailRefused, Postponed, Unreachable
from agentkit.events import AnswerAmended
from agentkit.testing import FakeServer, ScriptedLLM, call, fail, say, slow

MODES = ["run", "arun", "stream", "astream"]


@dataclass
class Invoice:
    """An invoice."""

    number: str
    total: float


def polite(prompt):
    """Refuse a prompt in capitals."""
    if prompt.isupper():
        raise ValueError("do not shout")


def in_german(prompt):
    """Add a request for German to the prompt."""
    return f"{prompt} Answer in German."


def brief(output):
    """Refuse long answers."""
    assert len(output) < 20, "Be brief: at most 20 characters."


def signed(output):
    """Sign the answer."""
    return f"{output} (signed)"


def positive(output):
    """Refuse totals that are not positive."""
    if output.total <= 0:
        raise ValueError("the total must be above zero")


def in_cents(output):
    """Convert the total to cents."""
    return Invoice(output.number, output.total * 100)


def broken_prompt(prompt):
    """Raise an unexpected error."""
    return prompt / 2


def broken_output(output):
    """Raise an unexpected error."""
    return output.nothing


def silent(output):
    """Refuse without a message."""
    if output != "Yes.":
        raise ValueError


def awaiting(check):
    """Return an async variant of a guardrail."""
    if "prompt" in check.__code__.co_varnames:

        async def later(prompt):
            await asyncio.sleep(0)
            return check(prompt)
    else:

        async def later(output):
            await asyncio.sleep(0)
            return check(output)

    return later


KINDS = pytest.mark.parametrize("kind", [lambda check: check, awaiting], ids=["sync", "async"])


@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_guardrail_that_passes(mode, kind, drive):
    """A guardrail that returns None changes neither prompt nor answer."""
    agent = Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[kind(polite), kind(brief)])
    assert drive(agent, mode, "Hi!").output == "Hello."
    assert [message["content"] for message in agent.history] == ["Hi!", "Hello."]


@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_guardrail_that_changes_the_text(mode, kind, drive):
    """The return value of a guardrail replaces the prompt or answer for the model, result and history."""
    llm = ScriptedLLM("Hallo.")
    agent, amended = Agent("helper", llm=llm, guardrails=[kind(in_german), kind(signed), signed]), []
    agent.on(AnswerAmended, lambda event: amended.append(event.text))
    assert drive(agent, mode, "Hi!").output == "Hallo. (signed) (signed)"
    assert llm.requests[0].messages[0].content == "Hi! Answer in German."
    assert [message["content"] for message in agent.history] == [
        "Hi! Answer in German.",
        "Hallo. (signed) (signed)",
    ]
    assert amended == ["Hallo. (signed)", "Hallo. (signed) (signed)"]


@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_refused_prompt_fails_the_run(mode, kind, drive):
    """A refused prompt fails the run with a reason, without a request or a change of the history."""
    llm = ScriptedLLM()
    agent = Agent("helper", llm=llm, guardrails=[kind(polite), kind(in_german)])
    result = drive(agent, mode, "HELP!")
    assert (result.status, llm.requests, agent.history) == ("failed", [], [])
    assert "do not shout" in str(result.error)
    again = drive(agent, mode, result.resumption())
    assert (again.status, llm.requests) == ("failed", [])


@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_refused_answer_is_corrected(mode, kind, drive, find_faults):
    """A refused answer is returned to the model with the reason, and the next one is checked."""
    llm = ScriptedLLM("A very long answer indeed.", "Short.")
    agent = Agent("helper", llm=llm, guardrails=[kind(brief)])
    assert drive(agent, mode).output == "Short."
    assert "Be brief: at most 20 characters." in llm.requests[1].messages[-1].content
    assert find_faults(agent.history) == []
    assert [message["role"] for message in agent.history] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("mode", MODES)
def test_number_of_refusals_is_limited(mode, drive):
    """After two corrections, the run fails with the last reason and has no output."""
    llm = ScriptedLLM("A very long answer indeed.", repeat=True)
    result = drive(Agent("helper", llm=llm, guardrails=[brief]), mode)
    assert (result.status, len(llm.requests)) == ("failed", 3)
    assert "refused 3 times. Be brief" in str(result.error)


@KINDS
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("check", [broken_prompt, broken_output])
def test_unexpected_error_of_a_guardrail_fails_the_run(check, mode, kind, drive):
    """A guardrail that raises an unexpected error fails the run, and the error names the guardrail."""
    result = drive(Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[kind(check)]), mode)
    assert result.status == "failed"
    assert "failed (" in str(result.error)
    assert type(result.error.__cause__).__name__ in {"TypeError", "AttributeError"}


def test_failing_guardrail_is_named():
    """The error names the guardrail."""
    result = Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[broken_output]).run("go")
    assert "The guardrail broken_output failed (AttributeError" in str(result.error)


def test_refusal_without_a_message():
    """The model receives the name of a guardrail that rejects without a message."""
    llm = ScriptedLLM("No.", "Yes.")
    assert Agent("helper", llm=llm, guardrails=[silent])("go") == "Yes."
    assert "silent" in llm.requests[1].messages[-1].content


@pytest.mark.parametrize("mode", MODES)
def test_guardrails_receive_the_typed_value(mode, drive):
    """With an output type, output guardrails receive the value and may replace it."""
    llm = ScriptedLLM('{"number": "A1", "total": 0}', '{"number": "A1", "total": 3}')
    agent = Agent("helper", output_type=Invoice, llm=llm, guardrails=[positive, in_cents])
    assert drive(agent, mode).output == Invoice("A1", 300)
    assert "above zero" in llm.requests[1].messages[-1].content
    assert agent.history[-1]["content"] == '{"number": "A1", "total": 300.0}'


def test_replaced_value_must_have_the_type():
    """A value that replaces a typed answer must have the type or be valid JSON for it."""

    def as_dictionary(output):
        return {"number": output.number, "total": "7"}

    def as_text(output):
        return "seven"

    text = '{"number": "A1", "total": 3}'
    typed = Agent("helper", output_type=Invoice, llm=ScriptedLLM(text), guardrails=[as_dictionary])
    assert typed.run("go").output == Invoice("A1", 7)
    failed = Agent("helper", output_type=Invoice, llm=ScriptedLLM(text), guardrails=[as_text]).run("go")
    assert failed.status == "failed"
    assert "The guardrail as_text returned an invalid answer" in str(failed.error)
    plain = Agent("helper", llm=ScriptedLLM("a b c"), guardrails=[lambda output: len(output.split())])
    assert "returned int for a text" in str(plain.run("go").error)


def test_each_text_of_a_prompt_is_checked():
    """Each text of a prompt with several parts is checked; images are not."""
    image = Image("https://example.org/cat.png")
    llm = ScriptedLLM("A cat.")
    agent = Agent("helper", llm=llm, guardrails=[polite, in_german])
    assert agent.run(["Look!", image, "WHAT IS THIS?"]).status == "failed"
    assert agent(["What is this?", image]) == "A cat."
    assert llm.requests[0].messages[0].content == ("What is this? Answer in German.", image)
    assert agent.run([image, "LOOK", "Look"]).status == "failed"


def test_failed_request_is_not_changed_twice():
    """Resuming after a failed request does not change the prompt again."""
    llm = ScriptedLLM(Unreachable("down"), "Hallo.")
    result = Agent("helper", llm=llm, guardrails=[in_german]).run("Hi!")
    assert result.resume().output == "Hallo."
    assert llm.requests[1].messages[0].content == "Hi! Answer in German."


def test_finished_run_is_not_changed_twice():
    """Resuming a finished run does not apply the guardrails again."""
    agent = Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[signed])
    assert agent.run("go").resume().output == "Hello. (signed)"


def test_text_with_a_tool_call_is_not_checked():
    """Text that accompanies a tool call is not checked, as it is not an answer."""
    llm = ScriptedLLM(say("A very long text beside a call.", call("work")), "Short.")

    def work() -> str:
        """Work."""
        return "done"

    assert Agent("helper", [work], llm=llm, guardrails=[brief])("go") == "Short."


def of_two(prompt, output):
    """A function with two required parameters."""


def shorter(output, limit, *rest, **more):
    """Refuse answers longer than `limit` characters."""
    assert len(output) <= limit, f"at most {limit}"


def tiny(output, limit=3):
    """The guardrail with a custom limit."""
    return shorter(output, limit)


@pytest.mark.parametrize("check", [tiny, functools.partial(shorter, limit=3), lambda output=None: shorter(output, 3)])
def test_guardrail_with_further_arguments(check):
    """A guardrail may have further parameters with defaults or values bound by a partial."""
    result = Agent("helper", llm=ScriptedLLM("Hello", "Hi"), guardrails=[check]).run("Hello?")
    assert (result.status, result.output) == ("done", "Hi")


@pytest.mark.parametrize("check", [list, max, len, of_two, "brief", 5])
def test_invalid_guardrail_is_rejected(check):
    """A function that is not a valid guardrail raises ConfigError when the agent is created."""
    with pytest.raises(ConfigError, match="A guardrail is a function of one parameter"):
        Agent("helper", guardrails=[check])


def no_secret(output):
    """Reject text that contains a secret."""
    if "SECRET" in str(output):
        raise ValueError("It is secret.")


@pytest.mark.parametrize(
    "lines",
    [
        [say("SECRET", finish_reason="length")],
        ["SECRET", fail(500, "Down.")],
        [say("SECRET", call("wait"))],
    ],
)
def test_unchecked_text_is_not_in_the_result(lines):
    """A result does not contain an answer that was truncated, refused, or followed by a pause."""
    with FakeServer(*lines) as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        result = Agent("helper", [wait], llm=llm, guardrails=[no_secret]).run("go")
    assert (result.status != "done", result.text, result.value) == (True, "", "")
    assert "SECRET" not in str(result.events[-1])


def wait() -> str:
    """Wait for a person."""
    raise Postponed("Shall I?")


def test_truncated_answer_is_checked():
    """A truncated answer is checked, and the result has the changed text."""
    llm = ScriptedLLM(say("Half an SEC", finish_reason="length"))
    result = Agent("helper", llm=llm, guardrails=[lambda output: output.replace("SEC", "…")]).run("go")
    assert (result.status, result.text) == ("limit", "Half an …")


def test_new_answer_of_a_resumed_run_is_checked():
    """The new answer of a resumed run with another output type is checked."""
    saved = Agent("helper", llm=ScriptedLLM("Hello.")).run("go").to_json()
    llm = ScriptedLLM('["SECRET"]', '["Hue"]')
    result = Agent("helper", llm=llm, output_type=list[str], guardrails=[no_secret]).resume(saved)
    assert result.value == ["Hue"]


def no_prices(output):
    """Refuse prices."""
    if "EUR" in output:
        raise ValueError("Name no prices.")


def no_insults(prompt):
    """Refuse insults."""
    if "fool" in prompt:
        raise ValueError("Be polite.")


@pytest.mark.parametrize(
    ("prompt", "lines", "refused"),
    [
        ("You fool!", [], ("no_insults", "prompt", "Be polite.")),
        ("How much?", ["5 EUR"] * 3, ("no_prices", "output", "Name no prices.")),
    ],
)
def test_refusals_are_structured(prompt, lines, refused):
    """The error of a refused run has the name of the guardrail, what it checks, and its reason."""
    agent = Agent("helper", llm=ScriptedLLM(*lines), guardrails=[no_prices, no_insults])
    error = agent.run(prompt).error
    assert isinstance(error, GuardrailRefused)
    assert (error.guardrail, error.stage, error.reason) == refused
    assert vars(pickle.loads(pickle.dumps(error)))["guardrail"] == refused[0]


def test_answers_of_a_wrong_type_are_no_refusals():
    """An answer that never matches the output type is an error without a guardrail."""
    error = Agent("helper", llm=ScriptedLLM(*["x"] * 3), output_type=int).run("Go.").error
    assert type(error) is RunError


def test_stream_withholds_unchecked_text():
    """With output guardrails, a stream emits the text only after they have passed."""
    agent = Agent("helper", llm=ScriptedLLM("It is 5 EUR.", "I name no prices."), guardrails=[no_prices])
    events = [*agent.stream("How much?")]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["I name no prices."]
    refused = Agent("helper", llm=ScriptedLLM(*["5 EUR"] * 3), guardrails=[no_prices]).stream("How much?")
    assert [event for event in refused if isinstance(event, TextDelta)] == []


@pytest.mark.parametrize("mode", MODES)
def test_guardrail_without_changes_runs_concurrently(mode, drive):
    """A prompt guardrail annotated to return None runs concurrently with the first request."""
    checked, question = threading.Event(), threading.Event()

    def check(prompt) -> None:
        checked.set()
        assert question.wait(30), "the model was not called"

    def answer(request):
        question.set()
        assert checked.wait(30), "the guardrail was not called"
        return "Hello."

    agent = Agent("helper", llm=ScriptedLLM(answer, "Again."), guardrails=[check])
    assert drive(agent, mode, "Hi!").output == "Hello."
    assert drive(agent, mode, "Hi again!").output == "Again."
    assert [message["content"] for message in agent.history] == ["Hi!", "Hello.", "Hi again!", "Again."]


@pytest.mark.parametrize("mode", MODES)
def test_refusal_cancels_a_concurrent_request(mode, drive):
    """A refusal cancels a concurrent request, whose text is not emitted."""
    texts = []

    def refuse(prompt) -> None:
        ends = time.monotonic() + 15
        while not server.requests and time.monotonic() < ends:
            time.sleep(0.01)
        raise ValueError("Not this.")

    with FakeServer(slow("Too late.", before_seconds=60)) as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        agent = Agent("helper", llm=llm, guardrails=[refuse])
        agent.on(TextDelta, texts.append)
        started = time.monotonic()
        result = drive(agent, mode, "Hi!")
        assert time.monotonic() - started < 20
    error = result.error
    assert (result.status, error.guardrail, error.stage, error.reason) == ("failed", "refuse", "prompt", "Not this.")
    assert (texts, agent.history, result.messages) == ([], [], ())
    assert result.usage.unreported == 1
    again = drive(agent, mode, result.resumption())
    assert isinstance(again.error, GuardrailRefused)


@pytest.mark.parametrize("mode", MODES)
def test_stream_is_buffered_until_the_prompt_has_passed(mode, drive):
    """Text that arrives before a guardrail has passed is emitted after it has passed, as is later text."""
    order, gate = [], threading.Event()

    def check(prompt) -> None:
        assert gate.wait(30)
        order.append("passed")

    def answer(request):
        gate.set()
        return "One two three."

    agent = Agent("helper", llm=ScriptedLLM(answer), guardrails=[check])
    agent.on(TextDelta, lambda _: order.append("text"))
    assert drive(agent, mode, "Hi!").output == "One two three."
    assert order[0] == "passed"
    assert ("text" in order) == ("stream" in mode)


@pytest.mark.parametrize("mode", MODES)
def test_answer_can_arrive_after_the_prompt_has_passed(mode, drive):
    """A guardrail that has passed long before the model answers does not end the request."""

    def check(prompt) -> None:
        assert prompt

    with FakeServer(slow("Hello.", before_seconds=0.3)) as server:
        llm = LLM(base_url=server.base_url, model="m", max_retries=0)
        assert drive(Agent("helper", llm=llm, guardrails=[check]), mode, "Hi!").output == "Hello."


@pytest.mark.parametrize("mode", MODES)
def test_late_amendment_is_an_error(mode, drive):
    """A guardrail annotated to return None that returns a string fails the run."""

    def wrong(prompt) -> None:
        return prompt.upper()

    result = drive(Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[wrong]), mode, "Hi!")
    assert (result.status, "Annotate it `-> str | None`" in str(result.error)) == ("failed", True)


@pytest.mark.parametrize("mode", MODES)
def test_guardrail_without_a_time_limit(mode, drive):
    """A run without a time limit waits until both the guardrail and the answer are complete."""

    def check(prompt) -> None:
        assert prompt

    agent = Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[check], limits=Limits(seconds=None))
    assert drive(agent, mode, "Hi!").output == "Hello."


@pytest.mark.parametrize("mode", ["run", "stream"])
def test_guardrail_can_end_the_program(mode, drive):
    """SystemExit in a guardrail that runs in a thread is raised to the caller."""

    def stop(prompt) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        drive(Agent("helper", llm=ScriptedLLM("Hello."), guardrails=[stop]), mode, "Hi!")

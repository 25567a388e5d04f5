"""How is the model asked, when nobody but the test answers?"""

from dataclasses import replace

import pytest

from agentkit.agents.agent import Agent
from agentkit.agents.budget import Budget, ContextBudget
from agentkit.agents.effects import AskModel
from agentkit.agents.guardrails import AnswerValidator
from agentkit.agents.model_requests import ModelRequester
from agentkit.agents.run_config import RunConfig
from agentkit.agents.tool_policy import ToolPolicyContext
from agentkit.errors import BadResponse, RateLimited, Rejected, Unreachable
from agentkit.events import LimitReached, RequestFailed, ResponseReceived, RunStarted, Summarised, ToolCallFinished
from agentkit.llm.client import LLM
from agentkit.llm.pipeline import ABANDONED
from agentkit.messages import AssistantMessage, HostedUse, Response, ToolCall, ToolResult, UserMessage
from agentkit.safety.approval import Grants
from agentkit.safety.policy import Policy
from agentkit.sessions.context_window import Window
from agentkit.sessions.session import Session
from agentkit.testing import ScriptedLLM, say
from agentkit.tooling.run_context import RunContext
from agentkit.tooling.toolset import Toolset
from agentkit.usage import Limits, Price, Tariff, Usage
from agentkit.workspace.workspace import Workspace


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def asking(window=None, llm=ScriptedLLM, exchanges=0, **limits):
    """The requests of a run that has begun."""
    tools, session = Toolset([add]), Session()
    if exchanges:
        said = [(UserMessage("word " * 100), AssistantMessage("Yes.")) for _ in range(exchanges)]
        session.append([message for pair in said for message in pair])
    policy_context = ToolPolicyContext(tools, (Policy(),), Grants(), Workspace())
    specs = tuple(tool.spec for tool in tools)
    room = ContextBudget(window or Window())
    plan = RunConfig(
        Agent("helper"), RunContext(None, "helper"), "Be brief.", specs, policy_context, llm, AnswerValidator(), room
    )
    run = session.begin()
    run.progress.apply(RunStarted("helper", "go"))
    return ModelRequester(plan, run, Budget(Limits(**limits)))


def play(steps, *answers):
    """What the steps yield, with these answers of a model, and what they return."""
    answers, told = iter(answers), []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return told, end.value
        told.append(step)
        if isinstance(step, AskModel):
            step.answer = next(answers)


def too_long(limit_tokens=None):
    """The refusal of a conversation that is too long."""
    return Rejected("Too long.", status=400, code="context_length_exceeded", limit_tokens=limit_tokens)


def test_request_holds_all_that_was_said():
    """A request carries the instruction, the conversation, the prompt and the tools; an order comes with no tools."""
    given = asking(exchanges=1)
    _, request = play(given.request())
    assert [type(message) for message in request.messages] == [UserMessage, AssistantMessage, UserMessage]
    assert (request.instruction, [spec.name for spec in request.tools]) == ("Be brief.", ["add"])
    _, ordered = play(given.request("Answer now."))
    assert (ordered.instruction, ordered.tools) == ("Be brief.\n\nAnswer now.", ())


@pytest.mark.parametrize(
    ("error", "is_given_back"),
    [
        (RateLimited("Slow down.", status=429), True),
        (Rejected("No.", status=400), True),
        (Unreachable("No connection."), False),
        (Unreachable("The time was up.", code=ABANDONED), False),
        (BadResponse("The stream was cut."), False),
    ],
)
def test_what_a_failed_request_took(error, is_given_back):
    """A request that the server refused took nothing; one that was cut off may have taken all that was set aside."""
    given = asking(output_tokens=1_000)
    _, request = play(given.request())
    told, answer = play(given.ask(request, given.reserve(request)), error)
    assert answer is error
    begun = isinstance(error, BadResponse) or error.code == ABANDONED
    assert told[-1] == RequestFailed(str(error), type(error).__name__, Usage(requests=begun, unreported=begun))
    assert (given.budget.spent.output_tokens == 0) == is_given_back


def test_each_attempt_that_nobody_answered_may_have_taken_all():
    """A request that was sent three times in vain may have taken three times what was set aside for it."""
    given = asking(output_tokens=10_000)
    _, request = play(given.request())
    reservation = given.reserve(request)
    error = RateLimited("Slow down.", status=429)
    error.unanswered = 2
    told, _ = play(given.ask(request, reservation), error)
    assert told[-1].usage == Usage(requests=2, unreported=2)
    assert given.budget.usage == Usage(requests=2, unreported=2)
    assert given.budget.spent.output_tokens == 2 * reservation.max_tokens


def test_missing_answer_is_a_bad_response():
    """A provider that ends without an answer has given none."""
    given = asking()
    _, request = play(given.request())
    _, answer = play(given.ask(request, given.reserve(request)), None)
    assert isinstance(answer, BadResponse)


def test_limit_that_narrowed_an_answer_is_remembered():
    """After an answer it is known which limit left it less room than it would have had."""
    for limits, name in (({"output_tokens": 100}, "output_tokens"), ({}, None)):
        given = asking(**limits)
        _, request = play(given.request())
        play(given.ask(request, given.reserve(request)), say("Hello."))
        assert (given.narrowed and given.narrowed.limit) == name


def test_too_long_is_tried_shorter():
    """A request that is too long is sent again, each time shorter, and three times at most."""
    given = asking(exchanges=60)
    _, request = play(given.request())
    told, answer = play(given.ask(request, given.reserve(request)), *[too_long()] * 3, say("Here."))
    lengths = [len(step.request.messages) for step in told if isinstance(step, AskModel)]
    assert answer.text == "Here."
    assert lengths == sorted(set(lengths), reverse=True)
    told, answer = play(asking_again(given), *[too_long()] * 4)
    assert answer.is_too_long


def asking_again(given):
    """The next question of a run."""
    _, request = play(given.request())
    return given.ask(request, given.reserve(request))


def test_what_cannot_be_made_shorter_is_sent_once():
    """A prompt that is too long by itself is not sent again as it was, and nothing stays set aside for it."""
    given = asking(input_tokens=1_000)
    _, request = play(given.request())
    told, answer = play(given.ask(request, given.reserve(request)), too_long())
    assert [type(step) for step in told] == [AskModel, RequestFailed]
    assert answer.is_too_long
    assert given.budget.spent.input_tokens == 0


def test_too_long_and_out_of_time():
    """A shorter request is not sent when a limit forbids it; the answer is then the refusal."""
    given = asking(exchanges=60, output_tokens=1_000)
    _, request = play(given.request())
    steps = given.ask(request, given.reserve(request))
    question = next(steps)
    question.answer = too_long()
    given.budget.spent.output_tokens += 1_000
    told, answer = play(steps)
    assert [type(step) for step in told] == [RequestFailed]
    assert answer.is_too_long


def test_settled_by_what_was_served():
    """What an answer cost is reckoned by the price of the model that served it, else of the one that was asked."""

    class Known(ScriptedLLM):
        """A model whose price is known."""

        @property
        def tariff(self):
            """What its requests are charged by."""
            return Tariff("scripted", "scripted", price=Price(1.0, 1.0))

    served = Usage(100, 100, requests=1, tariff=Tariff("x", "y", price=Price(5.0, 5.0)))
    for usage, dollars in ((served, 0.001), (Usage(100, 100, requests=1), 0.000_2)):
        given = asking(llm=Known, cost=1.0)
        _, request = play(given.request())
        play(given.ask(request, given.reserve(request)), say("Hello.", usage=usage))
        assert given.budget.spent.dollars == pytest.approx(dollars)


def test_length_in_a_window_that_was_learnt():
    """A length that the user chose comes first; else an answer may take a quarter of the window that was learnt."""
    given = asking(output_tokens=100_000)
    _, request = play(given.request())
    assert given.reserve(request).max_tokens == 16_384
    given.plan.room.refused(request, 16_384, 4_000)
    assert given.reserve(request).max_tokens == 1_000
    chosen = LLM(base_url="http://127.0.0.1:9/v1", model="any", max_tokens=50)
    assert asking(llm=lambda: chosen, output_tokens=100).reserve(request).max_tokens == 50


def test_what_hosted_tools_have_read_teaches_nothing_of_the_request():
    """A server counts what its own tools have found as input, which says nothing of how long the request was."""
    used = HostedUse(ToolCall("srv", "web_search", "{}"))
    for hosted, is_learnt in (((), True), ((used,), False)):
        given = asking()
        _, request = play(given.request())
        before = given.plan.room.tokens(request)
        play(
            given.ask(request, given.reserve(request)),
            replace(say("Hi", usage=Usage(30_000, 1, requests=1)), hosted=hosted),
        )
        assert (given.plan.room.tokens(request) > before) == is_learnt


def test_summary_is_asked_for_and_told():
    """A conversation without room is summarised first; what came to nothing is told with what it took."""
    for text, covered in (("They spoke.", True), ("", False)):
        given = asking(Window(tokens=1_000, summarise=True), exchanges=20)
        told, request = play(given.request(), say(text))
        (summarised,) = [step for step in told if isinstance(step, Summarised)]
        assert (summarised.text, summarised.messages > 0, summarised.usage.requests) == (text, covered, 1)
        assert ("They spoke." in str(request.messages)) == covered


def test_summary_that_a_limit_forbids_is_not_asked_for():
    """When there is no room for a summary under the limits, the conversation is just shortened."""
    given = asking(Window(tokens=1_000, summarise=True), exchanges=20, output_tokens=5)
    told, request = play(given.request())
    assert told == []
    assert "left out here" in str(request.messages)
    assert isinstance(given.reserve(request), LimitReached)


def test_summary_that_the_model_fails_to_write_is_done_without():
    """When the request for a summary fails, that is told, and the conversation is just shortened."""
    given = asking(Window(tokens=1_000, summarise=True), exchanges=20)
    told, request = play(given.request(), RateLimited("Slow down.", status=429))
    assert [type(step) for step in told] == [AskModel, RequestFailed]
    assert "left out here" in str(request.messages)


def test_tool_that_reads_on_is_made_once():
    """The tool that reads on is offered when something was left out, and is the same one all along."""
    given = asking(Window(tokens=700, keep_results=0), exchanges=1)
    _, before = play(given.request())
    for number in range(4):
        wish = ToolCall(f"id{number}", "add", "{}")
        given.run.progress.apply(ResponseReceived(Response(AssistantMessage("", (wish,)))))
        given.run.progress.apply(ToolCallFinished(wish, ToolResult("add", "ok", "word " * 500)))
    _, after = play(given.request())
    names = [[spec.name for spec in request.tools] for request in (before, after)]
    assert names == [["add"], ["add", "read_more"]]
    assert given.policy_context().tools.find("read_more") is given.policy_context().tools.find("read_more")

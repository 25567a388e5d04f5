"""Tests for cases with several prompts and simulated users."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from agentkit import Agent, Limits, RunContext, core_tools
from agentkit.errors import ConfigError, Unreachable
from agentkit.evals import Case, Report, Score, SimulatedUser, Suite, contains, matches, semantic, tool_calls
from agentkit.messages import AssistantMessage, ToolMessage, UserMessage
from agentkit.testing import ScriptedLLM, call, record, replay, say
from agentkit.usage import Usage

PLACES = ["Capital of Vietnam?", Case("And of France?", "Paris"), "Thank you!"]


def remembering(request):
    """Return a model whose answer depends on the number of messages."""
    return {1: "Hanoi.", 3: "Paris.", 5: "You are welcome."}.get(len(request.messages), "Too much was said.")


@pytest.fixture
def guide():
    """An agent that receives the conversation."""
    return Agent("guide", llm=ScriptedLLM(remembering, repeat=True))


def simulated_user(message, *, is_done=False):
    """Return the answer of a model that simulates a user."""
    return json.dumps({"message": message, "is_done": is_done})


def trial_of(agent, prompts, expected="welcome", scorers=None, **options):
    """Return the only trial of a conversation."""
    (trial,) = (
        Suite("talk", [Case(prompts=prompts, expected=expected)], scorers or [contains()]).run(agent, **options).trials
    )
    return trial


@pytest.mark.parametrize("is_awaiting", [False, True])
def test_conversation_has_the_history_of_its_case(guide, is_awaiting):
    """The agent receives the history of its own case only."""
    cases = [Case(prompts=PLACES, expected="welcome", id=name) for name in "ab"]
    suite = Suite("talk", cases, [contains()])
    report = asyncio.run(suite.arun(guide, repeats=3)) if is_awaiting else suite.run(guide, repeats=3)
    assert [trial.outcome for trial in report.trials] == ["passed"] * 6
    assert [score.reason for score in report.trials[0].scores] == ["", "prompt 2: as expected"]
    assert guide.history == []


def test_each_prompt_has_its_own_expectation(guide):
    """A prompt with an unexpected answer fails the trial, and the reason names the prompt."""
    trial = trial_of(guide, ["Capital of Vietnam?", Case("And of France?", "Lyon")], expected="Paris")
    assert (trial.outcome, trial.score) == ("failed", 0.5)
    assert trial.scores[1].reason == 'prompt 2: "Lyon" is missing'
    own = Case("And of France?", scorers=[lambda _case, result: Score("own", 1.0, result.output)])
    assert [score.reason for score in trial_of(guide, ["?", own], "Paris").scores] == ["", "prompt 2: Paris."]


def test_scorers_receive_the_whole_conversation():
    """A scorer of a conversation receives all its messages, calls and usage, and the last answer."""

    def line(request):
        is_asked = isinstance(request.messages[-1], UserMessage)
        return call("calculator", expression="2+2") if is_asked else "It is 4."

    seen = []

    def full_text(case, result):
        seen.append(([type(message) for message in result.messages], result.usage.requests, result.output))
        return True

    agent = Agent("helper", core_tools, llm=ScriptedLLM(line, repeat=True))
    case = Case(prompts=["2+2?", Case("Again?", tool_calls=["calculator"])], tool_calls=["calculator", "calculator"])
    (trial,) = Suite("talk", [case], [full_text, tool_calls()]).run(agent).trials
    assert trial.outcome == "passed"
    assert seen == [([UserMessage, AssistantMessage, ToolMessage, AssistantMessage] * 2, 4, "It is 4.")]
    assert trial.transcript.splitlines()[3:] == [
        "user: Again?",
        'call: calculator({"expression": "2+2"}) -> ok',
        "agent: It is 4.",
    ]


def test_failing_conversation_is_an_error(guide):
    """An interrupted conversation is an error, and its messages so far are stored."""
    llm = ScriptedLLM("Hanoi.", Unreachable("down"))
    trial = trial_of(Agent("guide", llm=llm), PLACES)
    assert (trial.outcome, trial.error, trial.is_finished, trial.usage.requests) == ("error", "down", False, 1)
    assert "agent: Hanoi." in trial.transcript


def test_conversation_is_stored(tmp_path, guide):
    """A conversation can be saved, resumed and replayed without running finished trials again."""
    first = trial_of(guide, PLACES, resume=tmp_path / "trials.jsonl", record=tmp_path / "tapes")
    question = len(guide.llm.requests)
    again = trial_of(guide, PLACES, resume=tmp_path / "trials.jsonl")
    replayed = trial_of(guide, PLACES, replay=tmp_path / "tapes")
    assert [each.scores for each in (again, replayed)] == [first.scores] * 2
    assert again.transcript == first.transcript
    assert len(guide.llm.requests) == question
    report = Report("talk", (first,))
    report.save(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json").cases == [first.case]


def test_conversation_with_failed_scoring_is_scored_later(tmp_path, guide):
    """If only the scoring failed, each prompt is scored later from the stored answers."""
    is_up = []

    def pass_when_up(case, result):
        if not is_up:
            raise OSError("down")
        return True

    scorers = [pass_when_up, contains()]
    assert trial_of(guide, PLACES, scorers=scorers, resume=tmp_path / "trials.jsonl").outcome == "error"
    is_up.append(True)
    question = len(guide.llm.requests)
    trial = trial_of(guide, PLACES, scorers=scorers, resume=tmp_path / "trials.jsonl")
    assert (trial.outcome, [score.name for score in trial.scores]) == (
        "passed",
        ["pass_when_up", "contains", "contains"],
    )
    assert len(guide.llm.requests) == question


def test_conversations_share_a_limit(guide):
    """Conversations that reserve the rest of a limit wait for each other, and then continue."""
    cases = [Case(prompts=PLACES, expected="welcome", id=name) for name in "abcdef"]
    report = Suite("talk", cases, [contains()]).run(
        guide, limits=Limits(total_tokens=20_000, seconds=None), concurrency=6
    )
    assert [trial.outcome for trial in report.trials] == ["passed"] * 6
    assert [trial.usage.requests for trial in report.trials] == [3] * 6


def test_limits_in_a_conversation(guide):
    """A conversation that was cut off by the limits of the suite is reported as undone."""
    trial = trial_of(guide, PLACES, limits=Limits(total_tokens=40, seconds=None), concurrency=1)
    assert (trial.outcome, trial.usage.requests) == ("undone", 1)


def test_function_receives_the_history():
    """A function with a `history` parameter receives the earlier messages as dictionaries."""

    def answer(prompt, history):
        return f"{prompt} after {[entry['content'] for entry in history if entry['role'] == 'user']}"

    trial = trial_of(answer, ["one", "two", Case("three", "three after")], expected="['one', 'two']")
    assert trial.outcome == "passed"


def test_judge_reads_the_whole_conversation(guide):
    """A judge receives every prompt and answer of a conversation."""
    questions = []

    def grade(request):
        questions.append(request.messages[0].content)
        return json.dumps({"reason": "so", "grade": 5})

    judge = semantic("The agent is polite.", llm=ScriptedLLM(grade, repeat=True))
    assert trial_of(guide, PLACES, expected=None, scorers=[judge, contains()]).outcome == "passed"
    assert "user: And of France?\nagent: Paris.\nuser: Thank you!" in questions[0]


def test_function_as_user(guide):
    """A function of the messages returns the prompts until it returns None."""

    def person(messages):
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
        return None if messages and "Paris" in messages[-1]["content"] else f"Prompt {len(messages)}"

    trial = trial_of(guide, SimulatedUser("hear of Paris", llm=person), expected="Paris")
    assert trial.transcript == "user: Prompt 0\nagent: Hanoi.\nuser: Prompt 2\nagent: Paris."
    assert (trial.outcome, trial.simulating) == ("passed", Usage())


def test_model_as_user(tmp_path, guide):
    """A model simulates a user with a goal, and its usage is counted separately and replayed."""
    player = ScriptedLLM(simulated_user("Hello"), simulated_user("And France?"), simulated_user("", is_done=True))
    user = SimulatedUser("Learn the capital of France.", "Ann, in a hurry.", llm=player)
    trial = trial_of(guide, user, expected="Paris", record=tmp_path)
    assert (trial.outcome, trial.simulating.requests, trial.usage.requests) == ("passed", 3, 2)
    instruction = player.requests[0].instruction
    assert "Ann, in a hurry." in instruction
    assert "Learn the capital of France." in instruction
    assert "Hanoi." in player.requests[1].messages[-1].content
    replayed = trial_of(guide, user, expected="Paris", replay=tmp_path)
    assert (replayed.outcome, replayed.simulating) == ("passed", trial.simulating)
    assert "simulated users took 45 tokens" in str(Report("talk", (trial,)))


def test_user_that_never_finishes_is_stopped(guide):
    """A simulated user that never finishes is stopped after `max_prompts` prompts."""
    user = SimulatedUser("talk", llm=lambda _messages: "more", max_prompts=2)
    assert trial_of(guide, user, expected="Paris").outcome == "passed"


def test_each_trial_has_a_separate_user(guide):
    """Each trial has a separate simulated user."""

    def player(request):
        return (
            simulated_user("", is_done=True)
            if len(request.messages) > 4
            else simulated_user(f"Prompt {len(request.messages)}")
        )

    user = SimulatedUser("talk", llm=ScriptedLLM(player, repeat=True))
    report = Suite("talk", [Case(prompts=user, expected="Paris")], [contains()]).run(guide, repeats=5)
    assert report.success_rate == 1.0
    assert {trial.transcript.count("user:") for trial in report.trials} == {2}


@pytest.mark.parametrize(
    ("player", "error"),
    [
        (lambda _messages: None, "The simulated user returned an empty message."),
        (lambda _messages: 3, "must return a string or None"),
        (lambda _messages: Agent("x", llm=ScriptedLLM(Unreachable("away")))("?"), "away"),
        (lambda _messages: 1 / 0, "The simulated user failed (ZeroDivisionError)"),
        (ScriptedLLM(Unreachable("down"), repeat=True), "down"),
        (ScriptedLLM(simulated_user("", is_done=True), repeat=True), "The simulated user returned an empty message."),
    ],
)
def test_failing_user_is_an_error(guide, player, error):
    """A failing simulated user makes the outcome of the trial an error."""
    trial = trial_of(guide, SimulatedUser("talk", llm=player))
    assert trial.outcome == "error"
    assert error in trial.error


def test_user_counts_towards_the_limits(guide):
    """Usage of a simulated user counts towards the limits of the suite."""
    player = ScriptedLLM(say(simulated_user("Hello"), usage=Usage(500, 500, requests=1)), repeat=True)
    trial = trial_of(guide, SimulatedUser("talk", llm=player), limits=Limits(total_tokens=1_200, seconds=None))
    assert (trial.outcome, trial.is_finished, trial.simulating.requests) == ("undone", False, 1)


def test_suite_inside_a_recording(tmp_path, guide):
    """A suite of conversations with a simulated user can be recorded in one cassette, and replayed."""
    player = ScriptedLLM(lambda request: simulated_user("Go on.", is_done=len(request.messages) > 4), repeat=True)
    suite = Suite(
        "talk",
        [Case(prompts=SimulatedUser("talk", llm=player), expected="Paris", id=name) for name in "abc"],
        [contains()],
    )
    with record(tmp_path / "x.cassette"):
        first = suite.run(guide)
    with replay(tmp_path / "x.cassette"):
        second = suite.run(guide)
    assert [trial.transcript for trial in second.trials] == [trial.transcript for trial in first.trials]


@pytest.mark.parametrize(
    "arguments",
    [
        {"goal": ""},
        {"goal": 3},
        {"goal": "x", "persona": None},
        {"goal": "x", "llm": 3},
        {"goal": "x", "max_prompts": 0},
        {"goal": "x", "max_prompts": True},
    ],
)
def test_invalid_user_arguments_are_rejected(arguments):
    """An invalid argument raises a ConfigError when the user is created."""
    with pytest.raises(ConfigError):
        SimulatedUser(**arguments)


def test_conversation_in_reports(guide):
    """HTML and JUnit XML reports show all messages of a failed conversation."""
    report = Report("talk", (trial_of(guide, PLACES, expected="Goodbye"),))
    for shown in (report.to_html(), report.to_junit()):
        assert "user: And of France?\nagent: Paris.\nuser: Thank you!" in shown


def test_scorer_that_fails_at_a_prompt(guide):
    """A failing scorer is reported with the number of its prompt."""
    trial = trial_of(guide, ["Capital?", Case("And?", "(", scorers=[matches()])], "Paris")
    assert (trial.outcome, [score.name for score in trial.scores]) == ("error", ["contains"])
    assert trial.error.startswith("Prompt 2: The scorer 'matches' failed (ConfigError)")


@dataclass
class Shop:
    """A context that the tools of a trial change."""

    orders: list[int]


def cancel(number: int, context: RunContext[Shop]) -> str:
    """Cancel an order."""
    context.value.orders.remove(number)
    return "cancelled"


def is_cancelled(case, result):
    """Return whether only this order was cancelled."""
    return result.context.orders == [11, 13]


@pytest.mark.parametrize("is_function", [False, True])
def test_separate_context_for_each_trial(is_function):
    """Each trial has a separate context that its tools change and its scorers receive."""

    def line(request):
        is_asked = request.messages[-1].content == "Number 12."
        return call("cancel", number=12) if is_asked else "Which one?" if len(request.messages) < 3 else "Done."

    agent = Agent("clerk", [cancel], llm=ScriptedLLM(line, repeat=True))

    def answer(prompt, history, context):
        if prompt == "Number 12.":
            context.orders.remove(12)
        return "Done."

    user = SimulatedUser("Cancel.", llm=lambda messages: ["Hello", "Number 12.", None][len(messages) // 2])
    suite = Suite("shop", [Case(prompts=user)], [is_cancelled], context=lambda _case: Shop([11, 12, 13]))
    report = suite.run({"clerk": answer if is_function else agent}, repeats=3)
    assert [trial.error for trial in report.trials] == [""] * 3
    assert report.success_rate == 1.0


def test_failing_context_function_is_an_error(guide):
    """A failing context function is an error of its trial, and any other context is rejected."""
    suite = Suite("talk", [Case("?", "Hanoi")], [contains()], context=lambda case: 1 / len(case.tags))
    (trial,) = suite.run(guide).trials
    assert (trial.outcome, trial.error[:46]) == ("error", "The context of the trial failed (ZeroDivisionE")
    with pytest.raises(ConfigError, match="context="):
        Suite("talk", [Case("?", "Hanoi")], [contains()], context=3)
    refused = Suite("talk", [Case("?", "Hanoi")], [contains()], context=lambda _case: SimulatedUser(""))
    assert "takes a goal" in refused.run(guide).trials[0].error

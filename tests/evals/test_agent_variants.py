"""Tests for agent variants and the isolation of trials."""

from pathlib import Path

import pytest

from agentkit import LLM, Agent, Approval, Session, tool
from agentkit.errors import ConfigError, NoProvider
from agentkit.evals import Case, Suite, contains
from agentkit.evals.run_config import MAX_COPIED_BYTES, Variant, own_folder, seeded, variants_of
from agentkit.testing import FakeServer, ScriptedLLM, call
from agentkit.tools.catalog import file_tools

YES = Case("?", "yes")


def run_of(agent, **options):
    """Return the trials of one case that expects yes."""
    return (
        Suite("x", [YES], contains(), **{name: options.pop(name) for name in ("workspace",) if name in options})
        .run(agent, **options)
        .trials
    )


def test_agents_by_name(always):
    """A single agent, a list and a dictionary of agents are run under their names."""
    one, two = always("yes", name="one"), always("yes", name="two")
    assert [variant.name for variant in variants_of(one)] == ["one"]
    assert [variant.name for variant in variants_of([one, two])] == ["one", "two"]
    assert [variant.name for variant in variants_of({"a": one, "b": one})] == ["a", "b"]


@pytest.mark.parametrize("agents", [3, "helper", [], {}, ["helper"], {3: 4}])
def test_invalid_agents_are_rejected(agents):
    """Values that are not agents raise a ConfigError."""
    with pytest.raises(ConfigError):
        variants_of(agents)


def test_duplicate_agent_names_are_rejected(always):
    """Two agents with the same name raise an error."""
    with pytest.raises(ConfigError, match="Two agents are called 'helper'"):
        variants_of([always("a"), always("b")])


def test_agent_on_several_models():
    """One agent is run on several models of its provider, and its own client is unchanged."""
    with FakeServer("yes", repeat=True) as server:
        agent = Agent("helper", llm=LLM(model="own", base_url=server.base_url))
        trials = run_of(agent, models=["mini", "big"])
        assert [trial.agent for trial in trials] == ["helper on mini", "helper on big"]
        assert sorted(request.model for request in server.requests) == ["big", "mini"]
        assert [trial.model for trial in run_of(agent, models="only")] == ["only"]
        assert [trial.agent for trial in run_of(agent, models=[LLM(model="own", base_url=server.base_url)])] == [
            "helper"
        ]
        assert agent.llm.model == "own"


def test_model_from_the_environment(monkeypatch):
    """An agent without an LLM gets one from the environment for each model."""
    with FakeServer("yes", repeat=True) as server:
        monkeypatch.setenv("AGENTKIT_BASE_URL", server.base_url)
        agent = Agent("helper")
        assert [trial.model for trial in run_of(agent, models=["mini", "big"])] == ["mini", "big"]
        assert agent.configured_llm is None


def test_missing_provider_raises_an_error(monkeypatch):
    """An agent without a provider raises NoProvider before anything runs."""
    for name in ("AGENTKIT_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AGENTKIT_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoProvider):
        run_of(Agent("helper"))


def test_seed_is_only_sent_to_chat_completions():
    """Each repeat sends its seed to chat completions, and other protocols do not receive one."""
    with FakeServer("yes", repeat=True) as server:
        chat = LLM(model="x", base_url=server.base_url, temperature=0.5)
        trials = run_of(Agent("helper", llm=chat), seed=7, repeats=2)
        assert sorted(request.json["seed"] for request in server.requests) == [7, 8]
        assert [trial.seed for trial in trials] == [7, 8]
        assert seeded(chat, None) is chat
        for protocol in ("responses", "messages"):
            other = LLM(model="x", base_url=server.base_url, protocol=protocol)
            assert seeded(other, 7) is other
        assert "seed" not in chat.settings


def test_trial_sees_no_history_and_no_grants_of_others():
    """Each trial starts without the history and approvals of others, and does not change the agent's."""
    questions = []

    @tool(level="system")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    def line(request):
        return call("wipe") if len(request.messages) % 3 == 1 else "yes"

    def approve(request):
        questions.append(request)
        return Approval.ALWAYS

    session = Session()
    agent = Agent("helper", [wipe], llm=ScriptedLLM(line, repeat=True), approve=approve, session=session)
    agent("once before")
    trials = run_of(agent, repeats=3, concurrency=1)
    assert len(questions) == 4
    assert [len(trial.result.messages) for trial in trials] == [4, 4, 4]
    assert all(not trial.result.history for trial in trials)
    assert len(session.messages) == 4


def writer(**options):
    """Return an agent that lists its folder, writes a file there, and returns the listing."""

    def line(request):
        lines = {1: call("list_directory"), 3: call("write_file", path="new.txt", content="x")}
        return lines.get(len(request.messages)) or f"yes: {request.messages[2].content}"

    return Agent("writer", file_tools, llm=ScriptedLLM(line, repeat=True), safety="system", **options)


def test_agent_without_a_folder_gets_an_empty_one(tmp_path, monkeypatch):
    """An agent that works in the current folder gets an empty one for each trial, which is removed again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("x")
    trials = run_of(writer(), repeats=2, concurrency=1)
    assert all("mine.txt" not in trial.answer and "new.txt" not in trial.answer for trial in trials)
    assert "new.txt" in trials[0].result.changes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


def test_agent_with_a_folder_gets_copies_of_it(tmp_path):
    """An agent with a workspace gets a copy for each trial, unless the suite or case has one."""
    for name in ("agent", "suite", "case"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-{name}.txt").write_text("x")
    agent = writer(workspace=tmp_path / "agent")
    assert all("of-agent.txt" in trial.answer for trial in run_of(agent, repeats=2))
    assert "of-suite.txt" in run_of(agent, workspace=tmp_path / "suite")[0].answer
    own = Suite("x", [Case("?", "yes", workspace=tmp_path / "case")], contains(), workspace=tmp_path / "suite")
    assert "of-case.txt" in own.run(agent).trials[0].answer
    assert not list(tmp_path.rglob("new.txt"))


def test_agents_in_handoffs_use_the_folder_of_the_trial(tmp_path, monkeypatch):
    """Agents in handoffs also work in the trial's folder, even when they hand back."""
    monkeypatch.chdir(tmp_path)

    def other_line(request):
        has_written = "write_file" in repr(request.messages[-1])
        return "yes" if has_written else call("write_file", path="new.txt", content="x")

    other = Agent("other", file_tools, llm=ScriptedLLM(other_line, repeat=True), safety="system")
    first = Agent("first", llm=ScriptedLLM(call("hand_off_to_other"), repeat=True), handoffs=[other])
    other.handoffs = [first]
    (trial,) = run_of(first)
    assert trial.passed
    assert "new.txt" in trial.result.changes
    assert not list(tmp_path.iterdir())


def test_invalid_workspace_is_an_error(tmp_path, always):
    """A workspace that is too large or missing is an error of the trial."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(MAX_COPIED_BYTES + 1)
    (trial,) = run_of(writer(workspace=tmp_path))
    assert (trial.outcome, trial.is_finished) == ("error", False)
    assert "too much to copy" in trial.error
    (trial,) = run_of(always("yes"), workspace=tmp_path / "nowhere")
    assert "cannot be copied" in trial.error


def test_agents_without_file_tools_get_no_folder(always):
    """An agent whose tools touch no files gets no folder, even if agents hand off in a circle."""
    one, two = always("yes", name="one"), always("yes", name="two")
    one.handoffs, two.handoffs = [two], [one]
    with own_folder(Variant("one", one, one.llm), None) as folder:
        assert folder is None
    assert len(variants_of(one)[0].digest) == 64
    two.tools = file_tools
    with own_folder(Variant("one", one, one.llm), None) as folder:
        assert not list(Path(folder).iterdir())


def test_digest_identifies_an_agent(always):
    """The digest of an agent depends on its instruction, tools, handoffs, output type and model."""
    same = {variants_of(always("a", instruction="Be brief."))[0].digest for _ in range(2)}
    others = {
        variants_of(agent)[0].digest
        for agent in (
            always("a"),
            always("a", instruction="Be brief.", tools=file_tools),
            always("a", instruction="Be brief.", handoffs=[always("b", name="b")]),
            always("a", instruction="Be brief.", output_type=list[int]),
            Agent("helper", instruction="Be brief.", llm=ScriptedLLM("a", model="other")),
        )
    }
    assert len(same) == 1
    assert len(same | others) == 6

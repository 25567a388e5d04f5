"""Tests for `agentkit optimize`, which improves the texts of an agent with the failures of a suite."""

import json
import signal
import stat
import threading
from pathlib import Path

import pytest

from agentkit.agents.agent_file import read_manifesto
from agentkit.cli.optimize import rewrite_instruction
from agentkit.errors import ConfigError
from agentkit.messages import Request, UserMessage
from agentkit.testing import FakeServer
from benchmarks.optimising import clerk

SUITE = "from benchmarks.optimising import clerk\n\nsuite = clerk.suite()\n"
BOT = "name: Clerk\nlimits: iterations 5\nsafety: safe\n\nYou note orders.\n"


def answer(request):
    """Return the answer of the clerk or the proposal of the reader."""
    instruction, prompt = (each["content"] for each in request.json["messages"])
    text = clerk.reader if "<new_text>" in instruction else clerk.clerk
    return text(Request([UserMessage(prompt)], instruction))


@pytest.fixture
def server():
    """A server for both models."""
    running = FakeServer(answer, repeat=True)
    running.start()
    yield running
    running.close()


@pytest.fixture
def optimize(typed_line, tmp_path, server):
    """Run `agentkit optimize suite.py --agent bot.txt ARGUMENTS` in an empty folder."""
    (tmp_path / "suite.py").write_text(SUITE, "utf-8")
    (tmp_path / "bot.txt").write_text(BOT, "utf-8")

    def run(*arguments, suite="suite.py", agent=("--agent", "bot.txt")):
        return typed_line("optimize", suite, *agent, *arguments, server=server)

    return run


def test_agent_in_a_file_is_improved(optimize, tmp_path):
    """The report and diff go to stdout; the improved agent goes to a new file with all else unchanged."""
    out, err, code = optimize("--tokens", 200_000, "--limit", "tool_calls=none", "--out", "improved.txt")
    assert code == 0, err
    assert out.startswith("Held-out cases: 0.00 -> 1.00 on 20 cases: +1.00")
    assert "\n+When an order is gift, add [wrap].\n" in out
    assert "round 1: kept, score 0." in err
    assert "The search is stored in bot.search.jsonl" in err
    assert (tmp_path / "bot.txt").read_text("utf-8") == BOT
    old, new = (read_manifesto(tmp_path / name) for name in ("bot.txt", "improved.txt"))
    assert (new.name, new.limits, new.safety) == (old.name, old.limits, old.safety)
    assert clerk.rules_in(new.instruction) == clerk.RULES
    assert stat.S_IMODE((tmp_path / "bot.search.jsonl").stat().st_mode) == 0o600


def test_search_is_resumed(optimize, server):
    """--resume continues a search without repeating requests; --lineage rejects an existing file."""
    out, _, code = optimize("--tokens", 3_000, "--lineage", "first.jsonl")
    assert code == 0, out
    assert "the limit of 3,000 total tokens is used up" in out
    _, err, code = optimize("--tokens", 200_000, "--lineage", "first.jsonl")
    assert code == 2
    text = "Continue it with: --resume first.jsonl   Begin another with: --lineage NEWFILE"
    assert err.splitlines() == ["Error: first.jsonl exists.", text]
    question = len(server.requests)
    out, _, code = optimize("--tokens", 200_000, "--resume", "first.jsonl")
    assert code == 0
    assert "+1.00" in out
    known = [(request.json["messages"][0], request.json["messages"][-1]) for request in server.requests]
    assert not [pair for pair in known[question:] if pair in known[:question]]


def test_out_overwrites_only_with_force(optimize, tmp_path):
    """--out overwrites an existing file only with --force."""
    _, err, code = optimize("--tokens", 9, "--out", "bot.txt")
    assert code == 2
    assert err.splitlines()[0] == "Error: bot.txt already exists."
    assert optimize("--tokens", 200_000, "--out", "bot.txt", "--force")[2] == 0
    assert clerk.rules_in(read_manifesto(tmp_path / "bot.txt").instruction) == clerk.RULES


def test_budget_in_dollars_requires_a_price(optimize, server):
    """A budget in dollars requires a known price, unless unknown_price=free is set."""
    _, err, code = optimize("--budget", "2.00", "-m", "my-own")
    assert code == 2
    assert err.splitlines()[0].startswith("Error: The price of ")
    assert len(err.splitlines()) == 2
    assert server.requests == []
    assert optimize("--budget", "2.00", "-m", "my-own", "--limit", "unknown_price=free")[2] == 0


def test_texts_are_proposed_by_another_model(optimize, server):
    """`--proposer` selects another model for writing the texts."""
    _, err, code = optimize("--tokens", 200_000, "--proposer", "writer", "-m", "worker")
    assert code == 0, err
    models = {("<new_text>" in each.json["messages"][0]["content"], each.json["model"]) for each in server.requests}
    assert models == {(True, "writer"), (False, "worker")}
    assert json.loads(Path("bot.search.jsonl").read_text("utf-8").splitlines()[0])["agent"] == "Clerk"


def test_search_without_a_gain_exits_with_1(typed_line, tmp_path):
    """A search without a gain writes no file and exits with code 1."""
    (tmp_path / "cases.csv").write_text("prompt,expected\n1+1,2\n2+2,4\n3+3,6\n4+4,8\n", "utf-8")
    (tmp_path / "bot.txt").write_text(BOT, "utf-8")
    words = ("optimize", "cases.csv", "--scorer", "exact", "--agent", "bot.txt", "--tokens", 99_000, "--rounds", 2)
    with FakeServer("I do not know.", repeat=True) as server:
        out, err, code = typed_line(*words, "--out", "improved.txt", server=server)
    assert code == 1, err
    assert out.startswith("No gain: no candidate was better than the original, so the original stays in use.\n")
    assert not (tmp_path / "improved.txt").exists()


@pytest.mark.parametrize("tokens", [100, 700])
def test_budget_too_small_to_measure_exits_with_3(optimize, tokens):
    """A budget too small to measure a training case exits with code 3."""
    out, _, code = optimize("--tokens", tokens)
    assert code == 3, out
    assert out.startswith("No training case was measured, so the original stays in use.\n")
    assert f"the limit of {tokens} total tokens is used up" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "The search has no limit.\nSet one: --budget DOLLARS or --tokens NUMBER."),
        (("--tokens", 9, "--offline", "-m", "x"), "Use --offline or --model, not both: "),
        (
            ("--tokens", 9, "--lineage", "a", "--resume", "b"),
            "Use --lineage for a new search, or --resume to continue one.",
        ),
        (("--tokens", 9, "--resume", "nowhere.jsonl"), "The search 'nowhere.jsonl' does not exist."),
        (("--tokens", 9, "--improve", "calculator"), "improve= names no text 'calculator'.\n"),
    ],
)
def test_invalid_arguments_exit_with_2(optimize, server, arguments, complaint):
    """Invalid arguments exit with code 2 before a model is called."""
    _, err, code = optimize(*arguments)
    assert code == 2
    assert err.startswith(f"Error: {complaint}")
    assert server.requests == []


def test_agent_of_a_program_is_optimized(optimize, tmp_path):
    """An agent from a program is optimized; its changes are shown, and no file is written."""
    program = 'from agentkit import Agent\n\nclerk = Agent("clerk", instruction="You note orders.")\n'
    (tmp_path / "bot.py").write_text(program, "utf-8")
    out, err, code = optimize("--tokens", 200_000, agent=("--agent", "bot.py:clerk"))
    assert code == 0, err
    assert "+When an order is gift" in out
    assert (tmp_path / "bot.search.jsonl").exists()
    _, err, code = optimize("--tokens", 9, "--out", "x.txt", "--lineage", "y", agent=("--agent", "bot.py"))
    assert code == 2
    assert err.startswith("Error: --out is for agents in text files.")


def test_ignored_settings_of_a_project_are_reported(optimize, tmp_path):
    """Ignored settings of an untrusted project are reported on stderr."""
    (tmp_path / "agentkit.toml").write_text('session = "theirs"\n', "utf-8")
    _, err, code = optimize("--tokens", 100)
    assert code == 3
    assert "is not trusted, so that session in it does not count." in err


def test_one_of_several_agents_must_be_named(optimize, tmp_path):
    """One agent must be named if the suite's file defines several."""
    two = "\nfrom agentkit import Agent\n\none, two = Agent('one'), Agent('two')\n"
    (tmp_path / "suite.py").write_text(SUITE + two, "utf-8")
    _, err, code = optimize("--tokens", 9, agent=())
    assert code == 2
    assert err.splitlines()[0] == "Error: Several agents can be improved: one, two."


def test_descriptions_of_tools_are_shown(typed_line, tmp_path):
    """Changed tool descriptions are shown, but not written to the agent's file."""
    (tmp_path / "bot.txt").write_text("tools: calculator\n\nBe brief.\n", "utf-8")
    (tmp_path / "cases.csv").write_text("prompt,expected\n1+1,done\n2+2,done\n3+3,done\n4+4,done\n", "utf-8")

    def line(request):
        question = request.json
        if "<new_text>" in question["messages"][0]["content"]:
            return "It must say so.\n<new_text>\nFor all sums.\n</new_text>"
        return "done" if question["tools"][0]["function"]["description"] == "For all sums." else "no"

    words = ("optimize", "cases.csv", "--agent", "bot.txt", "--improve", "tools", "--tokens", 900_000)
    with FakeServer(line, repeat=True) as server:
        out, err, code = typed_line(*words, "--out", "improved.txt", server=server)
    assert code == 0, err
    assert "+For all sums." in out
    assert "Descriptions of tools are part of the tools' code" in err
    assert read_manifesto(tmp_path / "improved.txt").instruction == "Be brief."


def test_interrupted_search_is_stored(spawn, tmp_path):
    """Ctrl-C stores the search and shows how to continue it."""
    (tmp_path / "cases.csv").write_text("prompt,expected\n1+1,2\n2+2,4\n", "utf-8")
    (tmp_path / "bot.txt").write_text(BOT, "utf-8")
    reached, interrupted = threading.Event(), threading.Event()

    def line(_request):
        reached.set()
        interrupted.wait(60)
        return "?"

    with FakeServer(line, repeat=True) as waiting:
        words = ("optimize", "cases.csv", "--scorer", "exact", "--agent", "bot.txt", "--tokens", "99000")
        process = spawn(*words, server=waiting, cwd=tmp_path)
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        interrupted.set()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The work so far is stored. Continue with: --resume bot.search.jsonl" in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: Bot\ntools: core\n\nBe brief.\n", "name: Bot\ntools: core\n\nBe kind.\nSay please.\n"),
        ("Be brief.", "Be kind.\nSay please.\n"),
        ("---\nname: Bot\n---\nBe brief.\n\n", "---\nname: Bot\n---\nBe kind.\nSay please.\n"),
        ("name: Bot\ninstruction: Be brief.\n", "name: Bot\ninstruction: Be kind.\nSay please.\n"),
    ],
)
def test_only_the_instruction_of_a_file_changes(tmp_path, old, new):
    """Optimizing an agent file does not change its settings."""
    path = tmp_path / "bot.txt"
    path.write_text(old, "utf-8")
    assert rewrite_instruction(path, "Be kind.\nSay please.") == new


def test_instruction_is_never_parsed_as_settings(tmp_path):
    """A proposed text that looks like settings is not parsed, so it cannot add tools or change the level."""
    path = tmp_path / "bot.txt"
    path.write_text("Be brief.\n", "utf-8")
    hostile = "tools: system\nsafety: system\n\nBe kind."
    with pytest.raises(ConfigError, match="cannot be replaced"):
        rewrite_instruction(path, hostile)
    named = "name: the person whom you answer.\n\nBe kind."
    path.write_text(rewrite_instruction(path, named), "utf-8")
    read = read_manifesto(path)
    assert (read.name, read.instruction) == ("bot", named)


def test_file_that_cannot_be_rewritten_raises(tmp_path):
    """rewrite_instruction() raises an error for a file whose text cannot be replaced."""
    path = tmp_path / "bot.txt"
    path.write_text("---\nname: Bot\n---\nBe brief.\n", "utf-8")
    with pytest.raises(ConfigError, match="cannot be replaced"):
        rewrite_instruction(path, "")


def test_function_as_agent_is_rejected(optimize, tmp_path):
    """A function as the agent is rejected, because it has no texts."""
    (tmp_path / "suite.py").write_text(f"{SUITE}\n\ndef answer(prompt):\n    return prompt\n", "utf-8")
    _, err, code = optimize("--tokens", 9, agent=("--agent", "answer"))
    assert code == 2
    assert "answer is a function, which has no texts to improve." in err


MANIFESTO = "You note orders.\n\nThese tools can be used:\n<TOOL: TELL_USER>text</TOOL>\n<TOOL: END_RUN></TOOL>\n"


def test_text_of_a_manifesto_is_optimized(optimize, tmp_path):
    """The text of a manifesto without settings is optimized, and the tools it lists stay the same."""
    (tmp_path / "manifesto.txt").write_text(MANIFESTO, "utf-8")
    out, err, code = optimize(
        "--tokens", 300_000, "--limit", "tool_calls=none", "--out", "improved.txt", agent=("--agent", "manifesto.txt")
    )
    assert code == 0, err
    assert "-> 1.00 on 20 cases" in out.splitlines()[0]
    old, new = (read_manifesto(tmp_path / name) for name in ("manifesto.txt", "improved.txt"))
    assert clerk.rules_in(new.instruction) == clerk.RULES
    assert (new.tools.names, new.tool_calling) == (old.tools.names, "text")
    assert (tmp_path / "manifesto.txt").read_text("utf-8") == MANIFESTO

"""Tests for agents that a program defines, and options of the command line that override them."""

import json

import pytest

from agentkit.testing import FakeServer, call

pytestmark = pytest.mark.slow

PROGRAM = '''
from agentkit import Agent, Limits, core_tools, tool

def price(name: str) -> int:
    """The price of a thing in EUR."""
    return 5

seen = []
clerk = Agent("clerk", [price, *core_tools.only("calculator")], lambda: "Sell things.", limits=Limits(tool_calls=3),
              safety="safe", listeners=[seen.append])
judge = Agent("judge", output_type=list[int])
@tool(level="system")
def pay() -> str:
    """Pay."""
    return "paid"

def nobody(request):
    return "Nobody may."

patient = Agent("patient", [price], max_iterations=12)
strict = Agent("strict", [pay], approve=nobody)
polite = Agent("polite", guardrails=[lambda output: f"{output} Kind regards."])
'''


@pytest.fixture
def bot(tmp_path):
    """A program that defines three agents."""
    path = tmp_path / "bot.py"
    path.write_text(PROGRAM)
    return path


def requested(server):
    """Return the instruction and the tool names of each request."""
    return [
        (each.json["messages"][0]["content"], [tool["function"]["name"] for tool in each.json.get("tools", [])])
        for each in server.requests
    ]


def test_agent_of_a_program_is_run(command, bot):
    """The instruction and tools of the program's agent are used."""
    with FakeServer(call("price", name="pen"), "5 EUR.") as server:
        out, _, code = command("--agent", f"{bot}:clerk", "How much is a pen?", server=server)
    assert (out, code) == ("5 EUR.\n", 0)
    assert requested(server) == [("Sell things.", ["price", "calculator"])] * 2


def test_iteration_limit_of_the_program_applies(command, bot):
    """The iteration limit of the program's agent replaces the default of the command line."""
    with FakeServer(*[call("price", name=f"pen {number}") for number in range(11)], "55 EUR.") as server:
        out, err, _ = command("--agent", f"{bot}:patient", "How much are eleven pens?", server=server)
    assert out == "55 EUR.\n", err


def test_approver_of_the_program_is_used(command, bot):
    """The program's approver is used, unless -y is given."""
    with FakeServer(call("pay"), "No.", call("pay"), "Yes.") as server:
        command("--agent", f"{bot}:strict", "Go!", server=server)
        command("--agent", f"{bot}:strict", "-y", "Go!", server=server)
    requested = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "Nobody may." in requested[1]
    assert "Nobody may." not in requested[3]


def test_flags_override_the_program(command, bot):
    """An instruction, tools and limits on the command line override those of the program."""
    with FakeServer(call("price", name="pen"), "No.", "Hi.") as server:
        command("--agent", f"{bot}:clerk", "-s", "Be brief.", "-t", "string_length", "Hi", server=server)
        command("--agent", f"{bot}:clerk", "--limit", "output_tokens=700", "Hi", server=server)
    assert requested(server)[0] == ("Be brief.", ["string_length"])
    assert 700 in server.requests[-1].json.values()


def test_typed_and_checked_answers(command, bot):
    """A typed answer is written as JSON, and a guarded answer is written once, as amended."""
    with FakeServer('{"result": [1, 2]}', '{"result": [1, 2]}', "Done.") as server:
        typed, _, _ = command("--agent", f"{bot}:judge", "Which?", server=server)
        full_text, _, _ = command("--agent", f"{bot}:judge", "--json", "Which?", server=server)
        checked, _, _ = command("--agent", f"{bot}:polite", "Go!", server=server)
    assert json.loads(typed) == json.loads(full_text)["output"] == [1, 2]
    assert checked == "Done. Kind regards.\n"


def test_model_of_the_program_is_used(command, tmp_path):
    """The program's own client is used unless a flag names a model."""
    with FakeServer("Mine.") as own, FakeServer("Yours.") as other:
        (tmp_path / "bot.py").write_text(
            f"from agentkit import LLM, Agent\nit = Agent('it', llm=LLM(base_url={own.base_url!r}, model='own'))\n"
        )
        assert command("--agent", str(tmp_path / "bot.py"), "Hi", server=other)[0] == "Mine.\n"
        assert command("--agent", str(tmp_path / "bot.py"), "-m", "any", "Hi", server=other)[0] == "Yours.\n"


@pytest.mark.parametrize(
    ("place", "text", "why"),
    [
        ("bot.py", PROGRAM, "{path} has clerk, judge, patient, strict, polite, so the choice is ambiguous"),
        ("bot.py:clark", PROGRAM, "There is no Agent 'clark' in {path}; it has clerk, judge, patient, strict, polite"),
        ("bot.py", "x = 1", "There is no Agent in {path}."),
        ("bot.py", "x = 1 / 0", "{path}, line 1: ZeroDivisionError"),
        ("none.py", "", "does not exist"),
    ],
)
def test_unusable_program_is_an_error(command, tmp_path, place, text, why):
    """A program that fails or does not define the named agent is an error."""
    (tmp_path / "bot.py").write_text(text)
    _, err, code = command("--agent", str(tmp_path / place), "Hi")
    assert code != 0
    assert why.format(path=tmp_path / "bot.py") in err


def test_schema_is_rejected_for_a_program_agent(command, bot):
    """`--schema` is rejected for an agent that is defined by a program."""
    with FakeServer() as server:
        _, err, code = command("--agent", f"{bot}:clerk", "--schema", "name", "Hi", server=server)
    assert code != 0
    assert "The type of the answers is part of 'clerk'" in err

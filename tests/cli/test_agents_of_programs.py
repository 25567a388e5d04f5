"""Is an agent that a program makes used as it is, but for what the command line says?"""

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
    """A program that makes three agents."""
    path = tmp_path / "bot.py"
    path.write_text(PROGRAM)
    return path


def told(server):
    """The instruction and the tools of each request."""
    return [
        (each.json["messages"][0]["content"], [tool["function"]["name"] for tool in each.json.get("tools", [])])
        for each in server.requests
    ]


def test_it_is_asked_as_the_program_has_made_it(command, bot):
    """Its instruction, tools and limits are the program's; the model is the command line's where it has none."""
    with FakeServer(call("price", name="pen"), "5 EUR.") as server:
        out, _, code = command("--agent", f"{bot}:clerk", "How much is a pen?", server=server)
    assert (out, code) == ("5 EUR.\n", 0)
    assert told(server) == [("Sell things.", ["price", "calculator"])] * 2


def test_its_iterations_are_the_programs(command, bot):
    """What the program allows to take long may, beyond what the command line allows by itself."""
    with FakeServer(*[call("price", name=f"pen {number}") for number in range(11)], "55 EUR.") as server:
        out, err, _ = command("--agent", f"{bot}:patient", "How much are eleven pens?", server=server)
    assert out == "55 EUR.\n", err


def test_whom_it_asks_is_the_programs_unless_all_is_approved(command, bot):
    """The program's approver answers; `-y` comes before it."""
    with FakeServer(call("pay"), "No.", call("pay"), "Yes.") as server:
        command("--agent", f"{bot}:strict", "Go!", server=server)
        command("--agent", f"{bot}:strict", "-y", "Go!", server=server)
    told = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "Nobody may." in told[1]
    assert "Nobody may." not in told[3]


def test_flags_come_first(command, bot):
    """An instruction, tools, a level and limits on the command line take the place of the program's."""
    with FakeServer(call("price", name="pen"), "No.", "Hi.") as server:
        command("--agent", f"{bot}:clerk", "-s", "Be brief.", "-t", "string_length", "Hi", server=server)
        command("--agent", f"{bot}:clerk", "--limit", "output_tokens=700", "Hi", server=server)
    assert told(server)[0] == ("Be brief.", ["string_length"])
    assert 700 in server.requests[-1].json.values()


def test_typed_and_checked_answers(command, bot):
    """What is typed is written as JSON, and what is checked as it was amended, once."""
    with FakeServer('{"result": [1, 2]}', '{"result": [1, 2]}', "Done.") as server:
        typed, _, _ = command("--agent", f"{bot}:judge", "Which?", server=server)
        whole, _, _ = command("--agent", f"{bot}:judge", "--json", "Which?", server=server)
        checked, _, _ = command("--agent", f"{bot}:polite", "Go!", server=server)
    assert json.loads(typed) == json.loads(whole)["output"] == [1, 2]
    assert checked == "Done. Kind regards.\n"


def test_an_own_model_is_asked(command, tmp_path):
    """A client that the program has made is used, unless a flag names another model."""
    with FakeServer("Mine.") as own, FakeServer("Yours.") as other:
        (tmp_path / "bot.py").write_text(
            f"from agentkit import LLM, Agent\nit = Agent('it', llm=LLM(base_url={own.base_url!r}, model='own'))\n"
        )
        assert command("--agent", str(tmp_path / "bot.py"), "Hi", server=other)[0] == "Mine.\n"
        assert command("--agent", str(tmp_path / "bot.py"), "-m", "any", "Hi", server=other)[0] == "Yours.\n"


@pytest.mark.parametrize(
    ("place", "text", "why"),
    [
        ("bot.py", PROGRAM, "{path} has clerk, judge, patient, strict, polite, so the choice is open"),
        ("bot.py:clark", PROGRAM, "There is no Agent 'clark' in {path}; it has clerk, judge, patient, strict, polite"),
        ("bot.py", "x = 1", "There is no Agent in {path}."),
        ("bot.py", "x = 1 / 0", "{path}, line 1: ZeroDivisionError"),
        ("none.py", "", "does not exist"),
    ],
)
def test_what_cannot_be_used_is_told(command, tmp_path, place, text, why):
    """Nothing is asked when the program fails, or does not make the agent that is meant."""
    (tmp_path / "bot.py").write_text(text)
    _, err, code = command("--agent", str(tmp_path / place), "Hi")
    assert code != 0
    assert why.format(path=tmp_path / "bot.py") in err


def test_the_type_of_answers_is_the_programs(command, bot):
    """`--schema` beside such an agent is refused, with where to say it."""
    with FakeServer() as server:
        _, err, code = command("--agent", f"{bot}:clerk", "--schema", "name", "Hi", server=server)
    assert code != 0
    assert "The type of the answers is part of 'clerk'" in err

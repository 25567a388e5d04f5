"""Tests for the cases of a suite and their ids."""

import subprocess
import sys

import pytest

from agentkit.content import File, Image
from agentkit.errors import ConfigError
from agentkit.evals import Case, ExpectedCall, SimulatedUser
from agentkit.testing import call

PICTURE = Image("https://example.org/cat.png", "low")


def test_id_of_a_case_depends_on_its_content():
    """A case without an id gets a stable one from its first words and its content."""
    case = Case("What is 17% of 2,400?", expected=408)
    assert case.id == Case("What is 17% of 2,400?", expected=408, tags=["sums"]).id
    assert case.id.startswith("what-is-17-of-2-400-")
    assert case.id != Case("What is 17% of 2,400?", expected=409).id
    assert Case("…").id.startswith("case-")
    assert Case("x", id="own").id == "own"


def test_prompt_with_a_picture():
    """A prompt may contain images, which are shown as a word in its text."""
    case = Case(["What is this?", PICTURE], expected="a cat")
    assert case.content == ("What is this?", PICTURE)
    assert case.text == "What is this? [image]"
    assert case.to_data()["prompt"] == ["What is this?", {"image": "https://example.org/cat.png", "detail": "low"}]
    assert Case(Image("https://example.org/cat.png")).to_data()["prompt"] == [{"image": "https://example.org/cat.png"}]


def test_prompt_with_a_file(tmp_path):
    """A prompt may contain files and paths, which are shown as a word with the name in its text."""
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    case = Case(["Sum up.", tmp_path / "a.pdf"], expected="short")
    assert case.content == ("Sum up.", File.read(b"%PDF-", "a.pdf"))
    assert case.text == "Sum up. [file a.pdf]"
    assert case.to_data()["prompt"] == ["Sum up.", {"file": "data:application/pdf;base64,JVBERi0=", "name": "a.pdf"}]
    assert Case(File("https://example.org/a.pdf")).to_data()["prompt"] == [{"file": "https://example.org/a.pdf"}]


@pytest.mark.parametrize(
    ("wanted", "intended"),
    [
        ("calculator", ExpectedCall("calculator")),
        (("calculator", {"expression": "2+2"}), ExpectedCall("calculator", {"expression": "2+2"})),
        (["calculator", {"expression": "2+2"}], ExpectedCall("calculator", {"expression": "2+2"})),
        ({"tool": "calculator"}, ExpectedCall("calculator")),
        ({"tool": "calculator", "arguments": {}}, ExpectedCall("calculator", {})),
        (call("calculator", expression="2+2"), ExpectedCall("calculator", {"expression": "2+2"})),
        (ExpectedCall("calculator"), ExpectedCall("calculator")),
    ],
)
def test_expected_calls(wanted, intended):
    """An expected call can be a name, a name with arguments, a dictionary or a tool call."""
    assert Case("x", tool_calls=[wanted]).expected_calls == (intended,)


@pytest.mark.for_each(
    "arguments",
    [
        {"prompt": 3},
        {"prompt": "x", "tool_calls": "calculator"},
        {"prompt": "x", "tool_calls": [3]},
        {"prompt": "x", "tool_calls": [{"name": "calculator"}]},
        {"prompt": "x", "tool_calls": [call("calculator", "[1]")]},
        {"prompt": "x", "tool_calls": [call("calculator", "{")]},
        {"prompt": "x", "tags": "sums"},
        {"prompt": "x", "tags": [3]},
        {"prompt": "x", "id": 3},
        {"prompt": "x", "scorers": [3]},
        {},
        {"prompt": "x", "prompts": ["y"]},
        {"prompt": "x", "arguments": {}},
        {"prompts": "x"},
        {"prompts": []},
        {"prompts": [3]},
        {"prompts": {"goal": "x"}},
        {"prompts": [Case(prompts=["x"])]},
        {"prompts": [Case("x", workspace="w")]},
        {"arguments": "x"},
        {"arguments": {3: 4}},
    ],
)
def test_invalid_case_arguments_are_rejected(arguments):
    """An invalid argument raises a ConfigError when the case is created."""
    with pytest.raises(ConfigError):
        Case(**arguments)


def test_case_as_data():
    """The data of a case contains everything except its scorers."""
    case = Case("x", expected={"at": {1}, "of": (1, 2.5)}, tool_calls=[("f", {"n": abs})], tags=["a"], workspace="w")
    data = case.to_data()
    assert {name: data[name] for name in data if name != "id"} == {
        "prompt": "x",
        "expected": {"at": "{1}", "of": [1, 2.5]},
        "tool_calls": [{"tool": "f", "arguments": {"n": "abs"}}],
        "tags": ["a"],
        "workspace": "w",
    }
    assert Case("x", tool_calls=["f"]).to_data()["tool_calls"] == [{"tool": "f"}]


def test_case_that_expects_no_call():
    """An empty list of expected calls is an expectation; None is not."""
    assert Case("x", tool_calls=[]).expected_calls == ()
    assert Case("x").expected_calls is None
    assert Case("x", tool_calls=[]).to_data()["tool_calls"] == []


def test_case_with_several_prompts():
    """A case with several prompts contains all of them in its text, id and data."""
    case = Case(prompts=["Hello", Case(["And?", PICTURE], 3, tool_calls=["f"])], expected="bye")
    assert (case.text, case.content, case.is_conversation) == ("Hello / And? [image]", "Hello", True)
    assert case.to_data()["prompts"] == [
        {"prompt": "Hello"},
        {
            "prompt": ["And?", {"image": "https://example.org/cat.png", "detail": "low"}],
            "expected": 3,
            "tool_calls": [{"tool": "f"}],
        },
    ]
    assert case.id != Case(prompts=["Hello", "And?"], expected="bye").id
    assert [each.text for each in case.turns] == ["Hello", "And? [image]"]
    assert Case("x").turns == (Case("x"),)


def test_case_of_a_simulated_user():
    """The id of a case with a simulated user depends on its goal and persona, not on the model."""
    case = Case(prompts=SimulatedUser("Buy a ticket.", "Ann", llm=len))
    assert (case.text, case.content, case.turns) == ("Buy a ticket.", "Buy a ticket.", ())
    assert case.to_data()["prompts"] == {"goal": "Buy a ticket.", "persona": "Ann", "max_prompts": 10}
    assert case == Case(prompts=SimulatedUser("Buy a ticket.", "Ann"))
    assert case.id != Case(prompts=SimulatedUser("Buy a ticket.")).id


def test_case_of_arguments():
    """The text of a case with arguments is their JSON."""
    case = Case(arguments={"of": "Hà Nội", "top": 3}, expected=[1])
    assert case.text == '{"of": "Hà Nội", "top": 3}'
    assert case.to_data()["arguments"] == {"of": "Hà Nội", "top": 3}


def test_ids_are_the_same_in_every_process():
    """Ids do not depend on memory addresses or the order of sets."""
    program = (
        "from agentkit.evals import Case\n"
        "class Place: pass\n"
        "print(Case('x', expected=[Place(), {'a', 'b', 'c', 'd'}, frozenset('xyz')]).id)"
    )
    stdouts = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(3)
    }
    assert len(stdouts) == 1

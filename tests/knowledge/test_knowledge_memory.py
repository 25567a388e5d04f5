"""Tests for Memory: notes about users, and its tools."""

import json
from pathlib import Path

import pytest

from agentkit import Agent, Approval
from agentkit.decisions import Label
from agentkit.errors import ConfigError
from agentkit.knowledge import Knowledge, Memory, Note
from agentkit.knowledge.memory import FEW_NOTES
from agentkit.testing import ScriptedLLM, call


@pytest.fixture
def memory(place):
    """Return an empty memory for the user ann."""
    with Memory(place, "ann") as memory:
        yield memory


def test_memory_adds_its_tools(memory):
    """A memory in `tools` adds three tools, and a note that is not a string raises a ConfigError."""
    assert Agent("helper", tools=[memory]).tools.names == ("remember", "recall", "forget")
    with pytest.raises(ConfigError, match=r"remember\(\) takes a string. Got 3"):
        memory.remember(3)


def test_notes_are_recalled(memory):
    """A note is found by its words, and without a question the newest notes are returned."""
    tea = memory.remember("Ann drinks green tea.", metadata={"about": "food"})
    memory.remember("Her dog is called Rex.")
    assert [note.text for note in memory.recall("What tea does she drink?", 1)] == ["Ann drinks green tea."]
    assert [note.text for note in memory.recall()] == ["Her dog is called Rex.", "Ann drinks green tea."]
    assert [note.text for note in memory.recall(limit=1)] == ["Her dog is called Rex."]
    (found,) = memory.recall("tea", where={"about": "food"})
    assert (found.id, found.metadata, found.at) == (tea.id, {"about": "food"}, tea.at)
    assert memory.recall("tea", where={"about": "work"}) == []


def test_users_have_separate_notes(memory, place):
    """Notes are separate for each user and from documents."""
    memory.remember("Ann drinks green tea.")
    with Memory(place, "bob") as other, Knowledge(place) as knowledge:
        knowledge.add_text("Tea comes from China.", "tea")
        assert other.recall("tea") == other.recall() == []
        assert other.forget(memory.recall()[0]) == 0
        assert [each.source for each in knowledge.search("tea")] == ["tea"]
        assert len(memory.recall("tea")) == 1


def test_note_is_not_stored_twice(memory):
    """Storing the same note again only makes it the most recent."""
    first = memory.remember("Ann drinks green tea.")
    memory.remember("Her dog is called Rex.")
    assert memory.remember(" Ann drinks green tea.\n").id == first.id
    assert [note.text for note in memory.recall()] == ["Ann drinks green tea.", "Her dog is called Rex."]


def test_forgotten_note_is_removed(database):
    """A forgotten note is removed from the search and from the file."""
    memory = Memory(database, "ann")
    note = memory.remember("The codeword is xylophone.")
    memory.remember("Her dog is called Rex.")
    assert memory.forget(note, "unknown") == 1
    assert [each.text for each in memory.recall("codeword")] == ["Her dog is called Rex."]
    memory.close()
    files = [path.read_bytes() for path in database.parent.iterdir()]
    assert [b"xylophon" in body for body in files] == [False] * len(files)
    memory.close()


def test_all_notes_of_a_user_can_be_forgotten(memory):
    """`forget_all` removes all notes of a user."""
    memory.remember("Ann drinks green tea.")
    memory.remember("Her dog is called Rex.")
    assert memory.forget_all() == 2
    assert memory.recall() == []


def test_note_is_recalled_by_its_meaning(place, embed):
    """With vectors a note is recalled by its meaning."""
    with Memory(place, embed=embed) as memory:
        memory.remember("He drives an automobile.")
        memory.remember("His garden is green.")
        assert memory.recall("car", 1)[0].text == "He drives an automobile."


@pytest.mark.parametrize("text", ["", " \n", "\0", "x" * 5_000])
def test_invalid_notes_are_rejected(memory, text):
    """An empty, invalid or too long note raises a ConfigError."""
    with pytest.raises(ConfigError):
        memory.remember(text)


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": True}, {"where": {"a": 1}}])
def test_invalid_recalls_are_rejected(memory, arguments):
    """An invalid `limit` and a metadata filter without a question raise a ConfigError."""
    with pytest.raises(ConfigError):
        memory.recall(**arguments)


@pytest.mark.parametrize("user", ["", "a\0b"])
def test_invalid_users_are_rejected(user):
    """An invalid user name raises an error."""
    with pytest.raises(ConfigError):
        Memory(":memory:", user)


def test_agent_remembers(memory):
    """An agent remembers in one run, recalls in another, and forgetting needs approval."""
    tools = memory.as_tools()
    assert [tool.level.name for tool in tools] == ["SAFE", "SAFE", "SYSTEM"]
    assert [Label.UNTRUSTED in tool.labels for tool in tools] == [False, True, False]
    with ScriptedLLM(call("remember", text="Ann drinks green tea."), "I will.") as llm:
        assert Agent("helper", memory.as_tools(), llm=llm)("Remember that I drink green tea.") == "I will."
    with ScriptedLLM(call("recall", query="tea"), "Green tea.") as llm:
        result = Agent("helper", tools, llm=llm).run("Which tea do I drink?")
    (recalled,) = result.tool_calls
    assert "Ann drinks green tea." in recalled.result.content
    note = memory.recall()[0]
    with ScriptedLLM(call("forget", note=note.id), "I may not.") as llm:
        Agent("helper", tools, llm=llm).run("Forget it.")
    assert memory.recall() != []
    with ScriptedLLM(call("forget", note=note.id), "Done.") as llm:
        Agent("helper", tools, llm=llm, approve=lambda _: Approval.ONCE).run("Forget it.")
    assert memory.recall() == []
    assert tools.find("recall").invoke({}).value == {"status": "empty", "notes": [], "untrusted": True}


def test_repr_of_a_memory(memory):
    """The repr of a memory contains its place and user."""
    assert repr(memory).startswith("Memory(")
    assert repr(memory).endswith(", user='ann')")
    assert Note("a", "b", 0.0).score == 0.0


PARAPHRASES = [
    json.loads(line) for line in (Path(__file__).parent / "paraphrases.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(("embeds", "first"), [(False, 1), (True, 12)], ids=["words", "embeddings"])
def test_paraphrased_questions(embeds, first):
    """All of few notes are recalled for paraphrased questions; with embeddings the right one comes first."""
    rows = {text: index for index, row in enumerate(PARAPHRASES) for text in row.values()}

    def embed(texts):
        return [[float(rows[text] == index) + 0.01 for index in range(len(PARAPHRASES))] for text in texts]

    memory = Memory(":memory:", embed=embed if embeds else None)
    for row in PARAPHRASES:
        memory.remember(row["note"])
    recalled = [[note.text for note in memory.recall(row["question"], 20)] for row in PARAPHRASES]
    assert all(row["note"] in found for row, found in zip(PARAPHRASES, recalled, strict=True))
    assert sum(row["note"] == found[0] for row, found in zip(PARAPHRASES, recalled, strict=True)) >= first


def test_few_notes_are_all_recalled():
    """With few notes a question recalls all of them, up to the limit, the related ones first."""
    memory = Memory(":memory:")
    for text in ("prefers tea over coffee", "has a cat", "likes long walks"):
        memory.remember(text)
    assert [note.text for note in memory.recall("What do I like to drink?")] == [
        "likes long walks",
        "has a cat",
        "prefers tea over coffee",
    ]
    assert next(note.text for note in memory.recall("A cat?", 2)) == "has a cat"
    for number in range(FEW_NOTES):
        memory.remember(f"fact {number}")
    assert memory.recall("What do I drink?") == []

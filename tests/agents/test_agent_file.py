"""Tests for agent files: settings, the instruction, and errors that name the line."""

import os
import re
from pathlib import Path

import pytest

from agentkit.agents.agent import Agent, AgentOptions
from agentkit.agents.agent_file import PYTHON_ONLY, AgentFile, parse_manifesto, read_manifesto
from agentkit.decisions import SafetyLevel
from agentkit.errors import ConfigError
from agentkit.safety.policy import Policy
from agentkit.testing import ScriptedLLM
from agentkit.tooling.tool import Tool
from agentkit.tools.catalog import web_tools
from agentkit.tools.core import core_tools
from agentkit.usage import Limits

FULL = """\
# The clerk of the city library
name: Clerk
model: ollama:qwen3
tools: core, wikipedia
safety: network
limits: iterations 5, cost 0.50, seconds=60, input tokens: 1_000
session: library

You are the clerk of a library.

Note: be kind.
"""
TOOLS = (*core_tools.names, "wikipedia")


def stamp(text: str) -> str:
    """Stamp a text."""
    return f"[{text}]"


def test_all_settings_of_an_agent_file():
    """A file may set all options, and the text after the first empty line is the instruction."""
    manifesto = parse_manifesto(FULL)
    assert manifesto.tools.names == TOOLS
    assert manifesto == AgentFile(
        name="Clerk",
        instruction="You are the clerk of a library.\n\nNote: be kind.",
        tools=manifesto.tools,
        model="ollama:qwen3",
        safety=SafetyLevel.NETWORK,
        limits=Limits(cost=0.5, seconds=60, input_tokens=1000),
        max_iterations=5,
        session="library",
    )


SPELLINGS = {
    "a frame": "---\nname: Clerk\n\ntools: core, wikipedia\n---\nBe kind.",
    "a list": "Tools:\n- core\n- wikipedia\nname: 'Clerk'\n\nBe kind.",
    "other bullets": "name: Clerk\ntools: core\n  * `wikipedia`\n\nBe kind.",
    "brackets": 'name: "Clerk"\ntools: [core, "wikipedia"]\n\nBe kind.',
    "blanks": "NAME: Clerk\ntools: core wikipedia\n\nBe kind.",
    "long names": "name: Clerk\ntools: core_tools; Wikipedia tool\n\nBe kind.",
    "each once": "name: Clerk\ntools: core, wikipedia, calculator\n\nBe kind.",
    "an instruction as a setting": "name: Clerk\ntools: core, wikipedia\ninstruction: Be kind.",
    "an instruction of several lines": "name: Clerk\ntools: core, wikipedia\ninstruction:\nBe kind.",
    "line ends of another system": "name: Clerk\r\ntools: core, wikipedia\r\n\r\nBe kind.\r\n",
    "a comment and empty lines first": "\n# Mine\n#\nname: Clerk\ntools: core, wikipedia\n\n\nBe kind.",
}


@pytest.mark.for_each("text", SPELLINGS.values(), ids=SPELLINGS)
def test_settings_in_different_spellings(text):
    """Settings are accepted in different spellings."""
    manifesto = parse_manifesto(text)
    assert (manifesto.name, manifesto.instruction, manifesto.tools.names) == ("Clerk", "Be kind.", TOOLS)


@pytest.mark.parametrize(
    "text",
    ["You are kind.", "# Kindness\n\nYou are kind.", "Note: be kind.\nname: no setting", "# Kindness\nIt matters."],
)
def test_text_without_settings(text):
    """A text without settings at the start is used as the instruction."""
    assert parse_manifesto(text) == AgentFile("agent", text)


def test_file_of_the_largest_size_is_read(tmp_path):
    """A file of exactly 1,000,000 bytes is read."""
    path = tmp_path / "agent.md"
    path.write_bytes(b"x" * 1_000_000)
    assert len(read_manifesto(path).instruction) == 1_000_000


def test_defaults_of_an_agent_file(tmp_path):
    """Name and session default to those of the file, and the workspace is relative to its folder."""
    path = tmp_path / "trip.txt"
    path.write_text("\ufefftools: none\nworkspace: notes\n\nPlan trips.", "utf-8")
    manifesto = read_manifesto(str(path))
    assert (manifesto.name, manifesto.workspace) == ("trip", tmp_path / "notes")
    assert re.fullmatch("trip-[0-9a-f]{8}", manifesto.session)
    assert manifesto.tools.names == ()
    other = tmp_path / "elsewhere" / "trip.txt"
    other.parent.mkdir()
    other.write_text("Plan other trips.", "utf-8")
    assert read_manifesto(other).session != manifesto.session
    assert read_manifesto(other.parent / ".." / "trip.txt").session == manifesto.session


def test_arguments_override_the_agent_file(tmp_path):
    """Keyword arguments take precedence over the settings of the file."""
    path = tmp_path / "trip.txt"
    path.write_text("tools: calculator\nmodel: gpt-5.4-mini\nsafety: safe\nsession: none\n\nPlan trips.", "utf-8")
    llm, policy = ScriptedLLM("Go to Huế."), Policy(SafetyLevel.SYSTEM)
    planner = Agent.from_file(path, llm=llm, policy=policy, name="planner")
    assert (planner.name, planner.instruction, planner.tools.names) == ("planner", "Plan trips.", ("calculator",))
    assert (planner.llm, planner.policy, planner("Where to?")) == (llm, policy, "Go to Huế.")
    assert Agent.from_file(path, llm=llm).policy.level is SafetyLevel.SAFE


@pytest.mark.parametrize("word", ["none", "Off", "no", ""])
def test_session_none(tmp_path, word):
    """`session: none` disables saving."""
    path = tmp_path / "trip.txt"
    path.write_text(f"session: {word}\nworkspace: /data\n\nPlan trips.", "utf-8")
    manifesto = read_manifesto(path)
    assert (manifesto.session, str(manifesto.workspace)) == (None, "/data")


def test_workspace_without_a_file():
    """Without a file, the workspace is relative to the current folder."""
    assert str(parse_manifesto("workspace: notes\n\nBe kind.").workspace) == "notes"


def test_custom_tools_in_a_file():
    """A file may name tools passed by the program, which replace shipped tools of the same name."""
    own = Tool(lambda query: query, "wikipedia", "Mine.")
    manifesto = parse_manifesto("tools: stamp, web, wikipedia\n\nBe kind.", tools=[stamp, own])
    assert manifesto.tools.names == ("stamp", *web_tools.names)
    assert manifesto.tools.find("wikipedia") is own


def test_limits_that_are_not_numbers():
    """A limit may be `none`, and an unknown price may be `free`."""
    limits = parse_manifesto("limits: seconds none, unknown-price free\n\nBe kind.").limits
    assert limits == Limits(seconds=None, unknown_price="free")


# the text; the line and the words of the error
FAULTS = {
    "no instruction": ("name: Clerk\n", None, "has no instruction"),
    "nothing": ("", None, "has no instruction"),
    "an unknown tool": ("name: Clerk\ntools: core, wikipdia\n\nBe kind.", 2, "Did you mean 'wikipedia'?"),
    "tool without a similar name": ("tools: qqqq\n\nBe kind.", 1, "The collections are: core, web"),
    "an unknown setting": ("name: Clerk\ncolour: red\n\nBe kind.", 2, "Unknown setting 'colour'. The settings"),
    "a misspelt setting": ("nmae: Clerk\n\nBe kind.", 1, "Did you mean 'name'?"),
    "no empty line": ("name: Clerk\nBe kind.", 2, "An empty line separates"),
    "no end of the frame": ("---\nname: Clerk\n\nBe kind.", 1, "but no such line ends them"),
    "a setting twice": ("name: Clerk\nname: Cook\n\nBe kind.", 2, "set twice"),
    "no value": ("name: Clerk\nmodel:\n\nBe kind.", 2, "model: Its value is missing"),
    "no level": ("safety: harmless\n\nBe kind.", 1, "SAFE, NETWORK or SYSTEM"),
    "no limit": ("limits: costs 3\n\nBe kind.", 1, "Did you mean 'cost'?"),
    "limit without a similar name": ("limits: qqqq 3\n\nBe kind.", 1, "The limits are"),
    "a limit without a number": ("limits: cost\n\nBe kind.", 1, "a name and a number"),
    "limit that is not a number": ("limits: cost 1.2.3\n\nBe kind.", 1, "limits:"),
    "empty limit": ("limits: iterations 0\n\nBe kind.", 1, "at least 1"),
    "tools at the end": ("Be kind.\n\n## Tools:\n- calculator\n", 3, "Put them at the top"),
    "tools at the end, in a line": ("name: A\n\nBe kind.\nTools: calculator", 4, "Put them at the top"),
}


@pytest.mark.for_each(("text", "line", "expected"), FAULTS.values(), ids=FAULTS)
def test_invalid_settings_are_reported_with_the_line(text, line, expected):
    """An invalid setting raises ConfigError, which names the line and the remedy."""
    with pytest.raises(ConfigError) as caught:
        parse_manifesto(text)
    assert expected in str(caught.value)
    assert (f"line {line}: " in str(caught.value)) is (line is not None)


NOT_LINE_ENDS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]


@pytest.mark.parametrize("end", [*NOT_LINE_ENDS, "\u200b", "\u202e", "\ue0041"], ids=ascii)
def test_hidden_setting_in_a_line_is_rejected(tmp_path, end):
    """A setting hidden after an unusual line separator is rejected."""
    for text in (f"tools: core{end}safety: system\n\nBe kind.", f"tools:\n- core{end}safety: system\n\nBe kind."):
        path = tmp_path / "agent.txt"
        path.write_bytes(text.encode())
        with pytest.raises(ConfigError, match=r"line \d: It contains invisible characters: .*\\u\{"):
            read_manifesto(path)


def test_text_with_invisible_characters_is_accepted():
    """Emoji, Windows line endings and control characters are accepted; a NUL character is rejected."""
    read = parse_manifesto("name: Weather \u26c5\ufe0f\r\ntools: core\r\n\r\nBe kind.\u2028And brief.\x0c")
    assert (read.name, read.instruction) == ("Weather \u26c5\ufe0f", "Be kind.\u2028And brief.")
    with pytest.raises(ConfigError, match="NUL"):
        parse_manifesto("Be kind.\0")


@pytest.mark.parametrize("text", ["Be kind.\n\nTools: hammer and saw", "Be kind.\nTools:", "Be kind.\nTools:\n- saw"])
def test_words_about_other_tools(text):
    """An instruction may mention tools that do not exist."""
    assert parse_manifesto(text).instruction == text


LOOK_LIKE_SETTINGS = {
    "an argument of Agent": ("policy: SAFE\n\nBe kind.", 1, "Unknown setting 'policy'"),
    "another one": ("approve: yes\n\nBe kind.", 1, "Agent.from_file(path, approve=...)"),
    "one without an empty line": ("Approve: yes\nBe kind.", 1, "Unknown setting 'Approve'"),
    "one after another name": ("role: clerk\nsafety: SAFE\n\nBe kind.", 2, "not recognised as a setting"),
    "a Cyrillic letter": ("s\u0430fety: SAFE\n\nBe kind.", 1, "Write `safety: value`"),
    "Cyrillic and Greek letters": ("m\u03bfd\u0435l: gpt\n\nBe kind.", 1, "Write `model: value`"),
    "an accent": ("s\u00e1fety: SAFE\n\nBe kind.", 1, "Write `safety: value`"),
    "wide letters": ("\uff53\uff41fety: SAFE\n\nBe kind.", 1, "Write `safety: value`"),
    "a wide colon": ("safety\uff1aSAFE\n\nBe kind.", 1, "Write `safety: value`"),
    "no space": ("safety:SAFE\n\nBe kind.", 1, "Write `safety: value`"),
}


def test_every_argument_is_a_setting_or_rejected():
    """Each argument of Agent is a setting, or is rejected by name."""
    assert PYTHON_ONLY | {"description", "model", "safety", "session", "limits", "workspace"} == {
        *AgentOptions.__annotations__,
        "output_type",
    }


@pytest.mark.for_each(("text", "line", "expected"), LOOK_LIKE_SETTINGS.values(), ids=LOOK_LIKE_SETTINGS)
def test_misplaced_setting_is_rejected(text, line, expected):
    """A line that looks like a setting but has no effect raises an error."""
    with pytest.raises(ConfigError, match=f"line {line}: ") as caught:
        parse_manifesto(text)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Role: you are a clerk.\nTone: kind.\n\nAnswer briefly.",
        "Chú ý: trả lời ngắn gọn.\n\nHãy tử tế.",
        "名前: 太郎\n\n親切に。",
        "http://example.com is your home page.\n\nBe kind.",
        "Be kind.\npolicy: none of your business\n\nAnd brief.",
    ],
)
def test_instruction_may_contain_colons(text):
    """An instruction may contain words followed by a colon."""
    assert parse_manifesto(text).instruction == text


ODD_FILES = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a large file": lambda path: path.write_bytes(b"x" * 1_000_001),
    "a very large file": lambda path: (path.touch(), os.truncate(path, 20_000_000_000)),
}


@pytest.mark.parametrize("make", ODD_FILES.values(), ids=ODD_FILES)
def test_only_regular_files_of_at_most_a_megabyte_are_read(tmp_path, make):
    """A path that is not a regular file, or a file that is too large, is rejected."""
    make(tmp_path / "trip.txt")
    with pytest.raises(ConfigError, match=r"The agent file .*trip\.txt.* cannot be read: it is (not a regular|larger)"):
        Agent.from_file(tmp_path / "trip.txt")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None], ids=["no text", "no file"])
def test_unreadable_agent_file_is_named(tmp_path, content):
    """The error for a missing or binary file names it."""
    path = tmp_path / "trip.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"The agent file .*trip\.txt.* An agent file is text: one setting per line"):
        read_manifesto(path)


def test_python_program_is_not_an_agent_file(tmp_path):
    """A Python program is rejected as an agent file."""
    (tmp_path / "bot.py").write_text("from agentkit import Agent\n")
    with pytest.raises(ConfigError, match=r"bot\.py' is a Python program.* --agent .* -t "):
        read_manifesto(tmp_path / "bot.py")

"""Tests for reports as Markdown, with hostile texts."""

import re

import pytest
from markdown_it import MarkdownIt

from agentkit import Agent
from agentkit.evals import Case, Report, Suite, contains
from agentkit.testing import ScriptedLLM

READER = MarkdownIt("commonmark").enable("table").enable("strikethrough")
OURS = re.compile(r"</?details>|<details><summary>\d+ did not pass</summary>")
HOSTILE = [
    "`| a | b |`\n```\n# Approved\n```",
    "@everyone [approve](https://evil.example) ![](https://evil.example/a.png)",
    "</details><img src=x onerror=alert(1)>\n~~~\n````",
    "www.evil.example",
    "- 1. - # done",
    "|---|\n- [x] done\n> quoted `` ` ``",
]


def tokens_of(text):
    """Return the Markdown tokens, including those inside paragraphs, headings and cells."""
    for token in READER.parse(text):
        yield token
        yield from token.children or ()


def reported(answer, prompt="Say yes.", name="one"):
    """Return a report of one case that fails with this answer."""
    agent = Agent(name, llm=ScriptedLLM(answer, repeat=True))
    return Suite("greeting", [Case(prompt, "yes, indeed")], [contains()]).run({name: agent})


def test_markdown_contains_the_results(mixed):
    """Markdown has a table of agents, one of tags, and the failed cases with their reasons."""
    text = mixed.to_markdown()
    kinds = [token.type for token in tokens_of(text)]
    assert (kinds.count("table_open"), kinds.count("heading_open")) == (2, 1 + min(20, len(mixed.failures)))
    assert "| agent | passed | rate (95 %) |" in text
    assert f"{len(mixed.failures)} did not pass" in text
    assert "4 of 12" in text
    assert "Expected:\n\n```text\n2\n```" in text


@pytest.mark.parametrize("expected", HOSTILE)
def test_untrusted_text_is_escaped(expected):
    """Answers, prompts and names are escaped in Markdown."""
    found = list(tokens_of(reported(expected, f"Say yes. {expected}", f"one {expected}").to_markdown()))
    assert not {token.type for token in found} & {"link_open", "image", "blockquote_open", "ordered_list_open"}
    html = [token.content for token in found if token.type.startswith("html")]
    assert all(OURS.fullmatch(line) for text in html for line in text.strip().splitlines())
    words = " ".join(token.content for token in found if token.type == "text")
    assert "evil" not in words
    assert "@" not in words
    assert expected in [token.content.rstrip("\n") for token in found if token.type == "fence"]
    cells = [token for token in found if token.type == "td_open"]
    assert len(cells) == 8


@pytest.mark.parametrize("name", ["1. bot", "- bot", "+ bot", "7) bot", "2.", "www.bot.example", "bot | a"])
def test_agent_name_is_escaped(name):
    """An agent name cannot start a list, create a link or end its table cell."""
    found = list(tokens_of(reported("no", name=name).to_markdown()))
    assert not {token.type for token in found} & {"ordered_list_open", "bullet_list_open", "link_open"}
    assert len([token for token in found if token.type == "td_open"]) == 8
    assert name in [token.content for token in found if token.type == "code_inline"]


def test_mixed_and_hostile_texts_are_code(mixed):
    """Hostile tags stay text in a whole report."""
    html = [token.content for token in tokens_of(mixed.to_markdown()) if token.type.startswith("html")]
    assert all(OURS.fullmatch(line) for text in html for line in text.strip().splitlines())


def test_report_without_failures_is_a_table():
    """A report without failures is only the table."""
    text = reported("yes, indeed").to_markdown()
    assert "details" not in text
    assert "1 of 1" in text


def test_long_reports_are_truncated():
    """Twenty failures are listed and the others counted; long texts are truncated."""
    cases = [Case(f"{number} {'x' * 3_000}", "y") for number in range(25)]
    text = Suite("many", cases, [contains()]).run(Agent(llm=ScriptedLLM("z" * 5_000, repeat=True))).to_markdown()
    assert "5 more are in the JSON of the report." in text
    assert len(text) < 20 * 4_000


def test_markdown_contains_no_secrets():
    """The Markdown contains no secrets."""
    assert "sk-proj" not in reported("The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD").to_markdown()


def test_report_is_saved_as_markdown(tmp_path):
    """The suffix `.md` selects Markdown."""
    report: Report = reported("no")
    report.save(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text("utf-8") == report.to_markdown()

"""Evaluation suite for tool choice: the offline model compared with a list of keywords.

Run it with `agentkit eval run benchmarks/offline/suite.py`. It contains the held-out questions with the four core
tools, and scores the selected tools, not their arguments. Questions with more than one correct selection are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentkit import LLM, Agent, core_tools
from agentkit.evals import Case, Suite, tool_calls
from agentkit.messages import AssistantMessage, Request, ToolMessage
from agentkit.testing import ScriptedLLM, call

QUESTIONS = Path(__file__).with_name("questions.jsonl")
KEYWORDS = {
    "get_current_datetime": r"\b(time|date|day|today|now|year|month|week|clock)\b",
    "string_length": r"\b(characters?|letters?|long|length|words?)\b",
    "parse_json": r"json|[{\[].*[}\]]",
    "calculator": r"\d\s*[-+*/^%]|\b(plus|minus|times|divided|percent|sum|root|calculate|how much)\b|%",
}
ARGUMENTS: dict[str, Any] = {
    "get_current_datetime": {},
    "string_length": {"text": "?"},
    "parse_json": {"json_string": "{}"},
    "calculator": {"expression": "0"},
}


def cases() -> Iterator[Case]:
    """The held-out questions with one correct selection of core tools, or none."""
    names = {tool.name for tool in core_tools}
    for line in QUESTIONS.read_text("utf-8").splitlines():
        question = json.loads(line)
        wanted = [each["tool"] for expected in question["calls"] for each in expected.get("any", [expected])]
        is_plain = len(wanted) == len(question["calls"]) and "or" not in question and "|" not in "".join(wanted)
        if question["half"] == "held-out" and question.get("tools") != "other" and is_plain:
            calls = [tool for tool in wanted if tool in names]
            yield Case(question["text"], tool_calls=calls, tags=[question["kind"]], id=f"{question['id']:03d}")


def choose(request: Request) -> Any:
    """Call the first tool with a keyword in the question, then answer with its result."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage | AssistantMessage):
        return last.content if isinstance(last, ToolMessage) else "I do not know."
    text = str(getattr(last, "content", "")).lower()
    tool = next((tool for tool, words in KEYWORDS.items() if re.search(words, text)), None)
    return "I have no tool for this." if tool is None else call(tool, ARGUMENTS[tool])


suite = Suite("tool choice, held-out questions", cases(), tool_calls(arguments=False))
keywords = Agent("keywords", core_tools, llm=ScriptedLLM(choose, repeat=True))
offline = Agent("offline model", core_tools, llm=LLM(provider="offline"))

"""How does one step of a run look on a page? (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit.decisions import Decision
from agentkit.events import LimitReached, RequestFailed, ResponseReceived
from agentkit.memory.narration.story import CallStory, Moment
from agentkit.memory.narration.words import answers_text, content_of, milestone_words, readable
from agentkit.messages import AssistantMessage, Message, Request, Response, SystemMessage, ToolMessage, ToolResult
from agentkit.safety.markup import Child, Markup, element
from agentkit.wording import arguments_in, content_text, count_text, seconds_text, tokens_text

_OPEN_CHARS, _GLIMPSE_CHARS = 600, 100
_VERDICTS = {"allow": "allowed", "ask": "must be asked for", "deny": "denied"}
_ROLES = {SystemMessage: "order", AssistantMessage: "model", ToolMessage: "tool"}


def card(step: Moment | CallStory, answer: str = "") -> Markup:
    """A step: the model's word, which may be the run's answer, a tool call, or something else that happened."""
    if isinstance(step, CallStory):
        return element("article", list(_call(step)), class_="card")
    if isinstance(step.milestone, ResponseReceived):
        response = step.milestone.response
        is_answer = bool(answer) and response.text == answer and not response.tool_calls
        return element("article", list(_response(step, response)), class_="card answer" if is_answer else "card")
    what, words = milestone_words(step.milestone)
    is_bad = isinstance(step.milestone, RequestFailed | LimitReached)
    told = element("p", words, class_="said") if words else None
    return element("article", element("h3", what), told, class_="card bad" if is_bad else "card")


def _response(moment: Moment, response: Response) -> Iterator[Markup]:
    figures = f"{seconds_text(moment.seconds)} · {tokens_text(response.usage)}"
    yield element("h3", response.model or "model", element("small", figures))
    if response.text:
        yield element("p", response.text, class_="said")
    if response.finish_reason == "length":
        yield element("p", "Cut short: this is as far as the answer came.", class_="remark")
    if response.tool_calls:
        wishes = [element("code", call.name) for call in response.tool_calls]
        yield element("p", "wishes to call ", _listed(wishes), class_="wishes")
    if response.message.reasoning:
        yield _folded("Reasoning", [element("p", response.message.reasoning, class_="said")])
    if moment.request is not None:
        yield _folded(f"What it was sent: {_sent(moment)}", list(_request(moment.request, moment.new)))


def _listed(parts: Sequence[Markup]) -> list[Child]:
    return [part if not place else [", ", part] for place, part in enumerate(parts)]


def _sent(moment: Moment) -> str:
    asked = moment.request
    tools = f", {count_text(len(asked.tools), 'tool')}" if asked is not None and asked.tools else ""
    return f"{count_text(len(moment.new), 'new message')}{tools}"


def _request(request: Request, new: Sequence[Message]) -> Iterator[Markup]:
    facts = {
        "instruction": request.instruction,
        "tools": ", ".join(tool.name for tool in request.tools),
        "settings": ", ".join(f"{name} = {readable(value)}" for name, value in request.settings.items()),
        "answer must fit": readable(request.output_schema.schema) if request.output_schema else "",
    }
    if any(facts.values()):
        yield _fields({name: value for name, value in facts.items() if value})
    for message in new:
        role = _ROLES.get(type(message), "user")
        yield element("div", element("b", role), element("pre", _said(message)), class_=f"message {role}")


def _said(message: Message) -> str:
    match message:
        case SystemMessage(text):
            return text
        case AssistantMessage(text, calls):
            return "\n".join(filter(None, [text, *(f"{call.name}({call.arguments})" for call in calls)]))
        case ToolMessage(name=name, content=content):
            return f"{name}: {content}"
        case user:
            return content_text(user.content, "\n")


def _call(story: CallStory) -> Iterator[Markup]:
    """A tool call: arguments, who judged what and why, what came of it."""
    decision = story.judgment
    verdict = _verdict(decision, story) if decision is not None else None
    yield element("h3", element("code", story.call.name), verdict, element("small", seconds_text(story.seconds)))
    named = arguments_in(story.call.arguments)
    if isinstance(named, str):
        yield element("pre", named)
    elif named:
        yield _fields(named)
    if decision is not None:
        yield element("div", list(_reasons(decision)), class_="decision")
    if person := answers_text(story):
        yield element("p", person, class_="person")
    if story.result is not None:
        yield _result(story.result)


def _verdict(decision: Decision, story: CallStory) -> Markup:
    verdict = str(decision.verdict)
    word = "allowed by a person" if verdict == "allow" and story.answers else _VERDICTS[verdict]
    return element("span", word, class_=f"chip {verdict}")


def _reasons(decision: Decision) -> Iterator[Child]:
    yield element("p", decision.reason, " ", element("span", f"rule: {decision.rule}", class_="rule"))
    if decision.evidence:
        yield element("p", "Because of ", element("code", decision.evidence))
    if decision.remedy:
        yield element("p", "Instead: ", decision.remedy)


def _result(result: ToolResult) -> Markup:
    """What came of a call: at once when it is short, else behind its first words."""
    text = result.whole or result.content
    content = content_of(text)
    word = "Result" if result.ok else f"Error ({result.status.replace('_', ' ')})"
    kind = "result" if result.ok else "result bad"
    shown = _fields(content) if isinstance(content, dict) else element("pre", content, tabindex="0")
    note = element("p", "The model was shown its beginning and its end.", class_="remark") if result.whole else None
    if len(text) <= _OPEN_CHARS:
        return element("div", element("h4", word), shown, note, class_=kind)
    glimpse = " ".join(text[: 2 * _GLIMPSE_CHARS].split())[:_GLIMPSE_CHARS]
    size = f"{len(text):,} characters"
    return element("div", _folded([f"{word}, {size} ", element("span", f"{glimpse}…")], [shown, note]), class_=kind)


def _fields(named: Mapping[str, Any]) -> Markup:
    """Names and values, one below the other."""
    pairs = [[element("dt", name), element("dd", readable(value), tabindex="0")] for name, value in named.items()]
    return element("dl", pairs, class_="fields")


def _folded(summary: Child, content: Child) -> Markup:
    return element("details", element("summary", summary), content)

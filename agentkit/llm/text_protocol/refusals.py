"""What does a server mean that refuses a request: can it not take tools, the schema of an answer, or both? Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from agentkit.errors import ModelError
    from agentkit.messages import Request

Lesson = Literal["tools", "schema", "both", "final_answer"]
"""What a server does not take: tools; the schema of an answer; both at once; the tool by which an answer is given."""

_STATUSES = {400, 404, 405, 422, 500, 501}
_CALLING = r"(?:tools?|functions?)[ _-]?(?:use|usage|calls?|calling)"
_QUOTE = r"[`'\"]?"
_TOOLS = rf"{_QUOTE}(?:{_CALLING}|tools)\b{_QUOTE}(?: (?:param(?:eter)?|field|argument)s?)?"
_SCHEMA = rf"{_QUOTE}(?:(?:response|output)[ _]format|json[ _]?schema|structured[ _]outputs?|text\.format)\b{_QUOTE}"
_IS_REFUSED = (
    r"(?:is|are|was) (?:(?:currently |yet )?(?:not|un)[ -]?(?:yet |currently )?"
    r"(?:supported|enabled|available|allowed|permitted|implemented)|enabled only)"
)
_UNKNOWN = r"(?:unsupported|unknown|unrecognized|unexpected|unavailable) (?:\w+ ){0,2}?[\w ]{0,80}(?:supplied)?:? ?"

_NO_TOOLS = re.compile(
    # Ollama, DeepSeek and Ark; Perplexity, Groq, DeepInfra, Gemini and Mistral; old llama.cpp and OpenAI
    rf"not (?:yet |currently )?support (?:the )?{_TOOLS}"
    rf"|{_TOOLS} {_IS_REFUSED}"
    rf"|{_UNKNOWN}{_QUOTE}tools\b(?![\[.])"
    # OpenRouter; vLLM; llama.cpp
    rf"|no endpoints found that support {_CALLING}"
    r"|tool choice requires --|tools param requires",
    re.IGNORECASE,
)
_NO_SCHEMA = re.compile(
    # Groq; OpenAI and Azure; DeepSeek; old llama.cpp and LM Studio
    rf"not (?:yet |currently )?support (?:the )?{_SCHEMA}"
    rf"|{_SCHEMA}[^:.]{{0,60}} {_IS_REFUSED}"
    rf"|response_format(?:\.type)?{_QUOTE}[^:.]{{0,40}} (?:is|are) unavailable|{_SCHEMA} is unavailable"
    rf"|response_format(?:\.type)?{_QUOTE} (?:type )?(?:must be|should be|value is not)"
    rf"|{_UNKNOWN}{_SCHEMA}(?![\[.])"
    r"|no endpoints found that (?:support|can handle) (?:the requested parameters|structured outputs?|response_format)"
    # Anthropic, of schemas that it cannot make a grammar of, too
    r"|\boutput_config(?:\.format\b|: extra inputs)|compiled grammar|grammar compilation|schema is too complex",
    re.IGNORECASE,
)
_NOT_BOTH = re.compile(
    # Groq; Gemini
    r"(?:json mode|response_format|json_schema).{0,80}(?:combined|compatible|used) with.{0,20}(?:tool|function)"
    r"|(?:tool|function)[ \w]{0,20} with a response mime type",
    re.IGNORECASE,
)
_WANT_OF_CALL = re.compile(r"did not call (?:a|any) (?:tool|function)", re.IGNORECASE)  # Groq
_WRONG_SCHEMA = re.compile(r"invalid[ _](?:json[ _])?schema", re.IGNORECASE)
_REFUSED_FIELD = re.compile(r"not permitted|not allowed|unsupported|not supported|extra inputs|unknown", re.IGNORECASE)


def lesson_of(error: ModelError, request: Request) -> Lesson | None:
    """Which feature to put into text instead, as this refusal is about it; None when it is about something else.

    A schema that is wrong in itself teaches nothing: it is the developer's to mend.
    """
    if error.status not in _STATUSES:
        return None
    text = f"{error} {error.code or ''}"
    if _WRONG_SCHEMA.search(text):
        return None
    top = re.split(r"[.\[]", error.parameter or "")[0] if _REFUSED_FIELD.search(text) else ""
    is_bare = error.parameter == top
    if request.output_schema is not None:
        is_named = is_bare and top in {"response_format", "text"}
        if request.tools and _NOT_BOTH.search(text):
            return "both"
        if is_named or _NO_SCHEMA.search(text):
            return "schema"
    if request.tools and ((is_bare and top == "tools") or _NO_TOOLS.search(text)):
        return "tools"
    return None


def is_want_of_call(error: ModelError) -> bool:
    """Whether a server refused what its model has written because a call was demanded and that is none."""
    return _WANT_OF_CALL.search(str(error)) is not None


def is_refused_tool(error: ModelError, request: Request, name: str) -> bool:
    """Whether a refusal is about the tool `name`, the last one of the request: its schema, or a call of it.

    Servers say its name or its number. Where it is the only one, whatever they say of tools is about it.
    """
    if error.status not in {400, 422} or error.is_too_long:
        return False
    last = len(request.tools) - 1
    about = rf"\b{re.escape(name)}\b|\b(?:tools|function_declarations)[.\[]{last}\b"
    text = f"{error} {error.code or ''} {error.parameter or ''}"
    return bool(re.search(about if last else rf"{about}|\b(?:tool|function)s?(?:\b|_)", text, re.IGNORECASE))

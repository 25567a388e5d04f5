"""What does a request say that is typed in haste: a command line, a misspelt verb, a sum told in words?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from agentkit.llm.providers.offline.reading import Question, Shape
from agentkit.llm.providers.offline.words import GREETINGS, SMALL_TALK, SPOKEN_NUMBER, STOP_WORDS, spoken, vocabulary


def spelled_out(text: str) -> str:
    """The request as a sentence that names what is to be done; one that is a sentence already stays as it is.

    Quotations, addresses, paths, JSON and what stands behind a colon are never changed.
    """
    line = text.strip()
    if is_program(line):
        return f"run this Python code: {line}"
    command = _COMMAND.match(line)
    if command and "\n" not in line and (sentence := _sentence(*command.groups(default=""))):
        return sentence
    return _sums_spelled_out(_lead_spelled_out(_OPENING.sub("", text)))


def only_states(text: str) -> bool:
    """Whether the text only says how something is: `my file is called notes.txt`."""
    return _STATEMENT.match(text) is not None


def is_program(text: str) -> bool:
    """Whether the whole text is Python that calls something other than the functions of a calculator."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if any(isinstance(node, ast.AnnAssign) for node in nodes):  # `python: len('abc')` is a sentence
        return False
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(each, ast.Attribute) or getattr(each, "id", "") in _BUILTINS for each in called)


def _sentence(prompt: str, program: str, rest: str) -> str | None:
    """What a command line asks for, as a sentence; None when it is none, as in `more about tulips`."""
    if prompt:
        return _to_run(f"{program} {rest}".strip())
    for pattern, sentence in _MEANINGS.get(program.lower(), ()):
        if match := pattern.fullmatch(rest):
            return match.expand(sentence)
    syntax = _STRICT_SYNTAX if program in _WORDS_TOO else _SHELL_SYNTAX
    if program in _PROGRAMS and (syntax.search(rest) or rest in _PROGRAMS[program].split(" ")):
        return _to_run(f"{program} {rest}".strip())
    return None


def _to_run(command: str) -> str:
    mark = "" if "`" in command else "`"
    return f"run the shell command{mark and ' '}{mark or ': '}{command}{mark}"


def _lead_spelled_out(text: str) -> str:
    """The text with the hasty words before its first content word written out, and that word if it is a verb."""
    place = 0
    while match := _WORD.match(text, place):
        word = match.group(1)
        better = _HASTY.get(word.lower()) or _corrected(word.lower())
        if better:
            text = text[: match.start(1)] + better + text[match.end(1) :]
        if not better and word.lower() not in STOP_WORDS | GREETINGS:
            break
        place = match.start(1) + len(better or word)
    return text


def _corrected(word: str) -> str | None:
    """The verb that a word is but for two letters swapped or, in a long one, one letter lost."""
    if word in STOP_WORDS | SMALL_TALK or word in _VERBS:
        return None
    return next((verb for verb in _VERBS if word in _misspellings(verb)), None)


def _misspellings(verb: str) -> set[str]:
    places = range(1, len(verb))
    lost = {verb[:place] + verb[place + 1 :] for place in places if len(verb) > _SHORT_VERB}
    return lost | {verb[: place - 1] + verb[place] + verb[place - 1] + verb[place + 1 :] for place in places}


def _sums_spelled_out(text: str) -> str:
    """The text with the sums that are told in words as formulas."""
    for pattern, formula in _SUMS:
        question = Question(text)
        kept = [(span.start, span.end) for span in question.of(*_VERBATIM)]
        colon = _COLON.search(text)
        end = colon.start() if colon else len(text)
        for match in reversed(list(pattern.finditer(text, 0, end))):
            if not any(start < match.end() and match.start() < stop for start, stop in kept):
                text = text[: match.start()] + formula(match) + text[match.end() :]
    return text


def _template(written: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(written)


def _of_list(match: re.Match[str]) -> str:
    """`mean(4, 8, 15)` for `average of 4, 8 and 15`."""
    numbers = ", ".join(re.findall(r"\d[\d.]*", match.group(2).replace(", ", " ; ")))
    return f"{_FUNCTIONS[match.group(1).lower()]}({numbers})"


def _rows(table: str) -> dict[str, str]:
    """A table of programs and of what stands behind them: one a line."""
    rows = (line.split(None, 1) for line in table.strip().splitlines())
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


_VERBATIM = (Shape.QUOTE, Shape.URL, Shape.EMAIL, Shape.JSON, Shape.PATH)
_COLON = re.compile(r":\s+(?=\S)")
_WORD = re.compile(r"[\s,]*([^\W\d_]+(?:['\u2019][^\W\d_]+)*)")
_COMMAND = re.compile(r"(\$\s+)?([A-Za-z][\w.+-]*)\s*(?:(?<=\s)(.*))?", re.DOTALL)
_FILE = r"((?:~|\.{1,2})?/\S+|\S*[\w-]\.[A-Za-z]\w{0,5}|[A-Z][a-z]+file)"
_NAME = r"([\w.~/-]*[\w~/.])"
_ADDRESS = r"[\"']?((?:https?://|www\.)[^\s\"']+)[\"']?"
_READING = ((re.compile(_FILE), r"read the file \1"),)
_LISTING = ((re.compile(""), "list the files"), (re.compile(_NAME), r"list the files in the folder \1"))
_FETCHING = ((re.compile(_ADDRESS), r"fetch \1"),)
_MEANINGS: Mapping[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    **dict.fromkeys(("cat", "less", "more", "head", "tail", "type", "bat"), _READING),
    **dict.fromkeys(("ls", "dir", "ll"), _LISTING),
    **dict.fromkeys(("curl", "wget", "get"), _FETCHING),
    "wc": ((re.compile(r"([\"'].+[\"'])"), r"count the words of \1"),),
}
"""Programs of the command line that do what a tool does, by what stands behind them."""

_PROGRAMS = _rows(
    """
    git status log diff branch pull push stash remote show
    pip list freeze
    pip3 list freeze
    npm test install start
    docker ps images
    systemctl status
    """
)
_PROGRAMS |= dict.fromkeys(vocabulary("pwd whoami uptime uname hostname ps df du env"), "")
_PROGRAMS |= dict.fromkeys(vocabulary("grep sed awk tar rm mv cp chmod chown ssh mkdir python3 ls wc curl wget"), "-")
_WORDS_TOO = vocabulary("echo find touch kill ping sort python node make cat head tail dir git docker npm pip")
_PROGRAMS |= {word: _PROGRAMS.get(word, "-") for word in _WORDS_TOO}
"""Other programs, and what may stand behind each without further signs that it is a command line."""

_SHELL_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s|\$\w|(?:^|\s)(?:~|\.{1,2})?/[\w.]")
_STRICT_SYNTAX = re.compile(r"(?:^|\s)--?\w|\s\|{1,2}\s|\s&&\s|\s>{1,2}\s")
_BUILTINS = vocabulary(
    "print len range sorted reversed list dict set tuple str repr enumerate zip map filter open type isinstance input"
)

_OPENING = re.compile(
    r"^\s*(?:(?:please|hi|hey|hello)[,\s]+)*i(?:['\u2019]d like| would like| want| need)(?: you)? to(?= \w)\s+",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\s*(?:my|our|his|her|their|the)(?: \w+){1,2} (?:is|are|was|were) (?:(?!:\s)[^,;?])+$", re.IGNORECASE
)

_HASTY = {
    **dict.fromkeys(("whats", "wats", "wuts"), "what's"),
    **dict.fromkeys(("wat", "wut", "waht"), "what"),
    **{short: f"{short[:-1]}'s" for short in ("whos", "wheres", "hows", "whens", "whys")},
    "u": "you",
    "exec": "execute",
    "gimme": "give me",
    "tldr": "summarize",
}
_VERBS = vocabulary(
    "calculate compute evaluate search read fetch list show write count parse validate create execute download"
)
_SHORT_VERB = 5

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_LIST = r"(\d[\d.]*(?:,\s+\d[\d.]*)*,?\s+(?:and|và)\s+\d[\d.]*|\d[\d.]*(?:,\s+\d[\d.]*)+)(?![\d%])"
_FUNCTIONS = {"average": "mean", "mean": "mean", "median": "median", "sum": "sum", "largest": "max", "smallest": "min"}
_SUMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (SPOKEN_NUMBER, lambda match: f"{spoken(match.group()):.0f}"),
    *(
        (re.compile(rf"\b{pattern}", re.IGNORECASE), written)
        for pattern, written in (
            (rf"({'|'.join(_FUNCTIONS)}) of {_LIST}", _of_list),
            (rf"difference between {_NUMBER} and {_NUMBER}\b", _template(r"\1 - \2")),
            (rf"(?:twice|double) {_NUMBER}(?=[\s?.!]*$)", _template(r"2 * \1")),
            (rf"a third of {_NUMBER}(?=[\s?.!]*$)", _template(r"\1 / 3")),
            (rf"(?:a|one) quarter of {_NUMBER}(?=[\s?.!]*$)", _template(r"\1 / 4")),
            (rf"{_NUMBER} to the (\d+)(?:st|nd|rd|th)(?: power)?\b", _template(r"\1 ** \2")),
            (rf"{_NUMBER}\s?(?:%|percent) off (?:of )?\$?{_NUMBER}", _template(r"\2 * (100 - \1) / 100")),
            (rf"(?:increase|raise) {_NUMBER} by {_NUMBER}\s?(?:%|percent)", _template(r"\1 * (100 + \2) / 100")),
            (rf"(?:decrease|reduce) {_NUMBER} by {_NUMBER}\s?(?:%|percent)", _template(r"\1 * (100 - \2) / 100")),
        )
    ),
)
"""Sums as people tell them, and how the calculator reads them. The first row writes long numbers in figures."""

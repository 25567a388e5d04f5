"""Is an awk program harmless: does it neither start programs nor open other files? (pure)."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r]|\\\n|#[^\n]*)+)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<mark>&&|\|\||>>|[-+*/%^=!<>]=|\+\+|--|[-+*/%^=!<>~?:,;(){}\[\]$\n])",
    re.DOTALL,
)
_PATTERN = re.compile(r"/(?:[^/\\\n\[\"]|\\.|\[\^?\]?(?:[^\]\\\n\"/]|\\.)*\])*/")
_OPERANDS = {")", "]", "++", "--", "$"}
_DELICATE = {
    *("system", "getline", "ENVIRON", "PROCINFO", "ARGV", "ARGC", "ARGIND", "SYMTAB", "FUNCTAB", "while", "do"),
    *("extension", "close", "include", "load", "namespace", "eval"),
}
_INTO = (">>", ">")
_KEYWORDS = {"print", "printf", "return", "in", "if", "else"}


def is_plain(code: str) -> bool:
    """Whether every token is understood and none runs a program, opens a file or loops without end."""
    tokens = _tokens(code)
    if tokens is None or _DELICATE & set(tokens):
        return False
    text = " ".join(tokens)
    return not re.search(r"for \( [^)]*; ;", text) and not _redirects(tokens)


def _tokens(code: str) -> list[str] | None:
    """The tokens, strings as an empty one and patterns as //; None when something is not understood."""
    tokens: list[str] = []
    place, operand = 0, False
    while place < len(code):
        pattern = None if operand or code[place] != "/" else _PATTERN.match(code, place)
        match = pattern or _TOKEN.match(code, place)
        if match is None or (code[place] == "/" and not operand and not pattern):
            return None
        place = match.end()
        kind = "pattern" if pattern else match.lastgroup
        if kind == "space":
            continue
        tokens.append({"string": '""', "pattern": "//"}.get(str(kind), match[0]))
        operand = (kind != "mark" and tokens[-1] not in _KEYWORDS) or tokens[-1] in _OPERANDS
    return tokens


def _redirects(tokens: list[str]) -> bool:
    """Whether a print statement goes to a file: a > outside parentheses, before the statement's end."""
    printing, depth = False, 0
    for part in tokens:
        depth += (part in {"(", "["}) - (part in {")", "]"})
        if part in {"print", "printf"}:
            printing, depth = True, 0
        elif part in {";", "\n", "}"}:
            printing = False
        elif part in _INTO[: 2 if printing and depth <= 0 else 1]:
            return True
    return False

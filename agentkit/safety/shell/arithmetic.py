"""Arithmetic expansion, whose operands bash evaluates as code (pure).

Such a text is code: bash replaces each name in it by the variable's value, evaluates that value in turn, and runs the
command substitutions in subscripts, so the value `a[$(command)]` runs the command. `is_harmless` follows a text the
same way. It accepts only numbers, operators, and variables whose value is itself known to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentkit.decisions import Decision
from agentkit.safety.shell.variables import (
    A_FILE,
    A_NUMBER,
    A_WORD,
    ANYTHING,
    NOTHING,
    UNKNOWN,
    UNKNOWN_NAME,
    UNTRUSTED,
    ShellScope,
    Value,
    ask,
)

_SUBSTITUTION_START = re.compile(r"[$`\\]")
_NAME = re.compile(r"(?<!\w)(?<!\d#)[A-Za-z_]\w*")
_PARTLY_NAMED = re.compile(rf"[A-Za-z_]\w*{UNKNOWN_NAME}")
_KEY = re.compile(r"(?<!\w)([A-Za-z_]\w*)\[([^\[\]]*)\]")
_ASSIGNED = re.compile(
    r"(?<!\w)([A-Za-z_]\w*)\s*(?P<element>\[[^\]]*\])?\s*((?P<plain>=)(?!=)|([-+*/%&|^]|<<|>>)=|\+\+|--)"
    r"|(\+\+|--)\s*([A-Za-z_]\w*)"
)
_SIMPLE = re.compile(rf"\s*[A-Za-z_]\w*\s*=\s*(0|[1-9]\d{{0,17}}|{UNKNOWN_NAME})\s*")
_ELEMENT = re.compile(r"\{?([A-Za-z_]\w*)\[(.*)", re.DOTALL)
NUMBERS = (
    *("RANDOM", "SRANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "EPOCHSECONDS", "SHLVL", "OPTIND"),
    *("PIPESTATUS", "BASH_SUBSHELL"),
)
"""The variables that bash sets to numbers."""
_DELICATE = {"IFS", "PATH", "HOME", "PWD", "OLDPWD", "BASH_ENV", "ENV"}


def is_harmless(value: Value, scope: ShellScope) -> bool:
    """Whether bash runs nothing when it evaluates this text: all its names lead to numbers."""
    waiting, seen = [value], set[str]()
    while waiting:
        value = waiting.pop()
        if value.items is not None:
            waiting.extend(value.items)
            continue
        text = value.text
        if UNKNOWN in text or _SUBSTITUTION_START.search(text) or value.origins & {A_FILE, UNTRUSTED}:
            return False
        text = _KEY.sub(lambda match: match[1] if match[1] in scope.keyed else match[0], text)
        if UNKNOWN_NAME in text and (A_WORD in value.origins or _PARTLY_NAMED.search(text)):
            return False
        # The text without the names that it only assigns to: bash does not evaluate their old values.
        names = (
            set(_NAME.findall(_ASSIGNED.sub(lambda m: " = " if m["plain"] and not m["element"] else m[0], text))) - seen
        )
        seen |= names
        waiting.extend(variable_value(name, scope) for name in names)
    return True


def is_number(value: Value) -> bool:
    """Whether a value is certainly a number or empty, and not a name that arithmetic would follow."""
    sure = value.text == "" or re.fullmatch(rf"-?[\d{UNKNOWN_NAME}]+", value.text)
    return bool(sure) and value.items is None and not value.origins & {A_FILE, A_WORD, UNTRUSTED}


def variable_value(name: str, scope: ShellScope) -> Value:
    """The value of a variable in arithmetic. A lower-case name that nothing has set is an unset variable."""
    value = scope.value(name)
    if value is not None:
        return value
    return A_NUMBER if name in NUMBERS else NOTHING if name.islower() and not scope.is_child else ANYTHING


def objections(value: Value, source: str, scope: ShellScope) -> Iterator[Decision]:
    """Objections to evaluating a text as arithmetic."""
    changes_bash = any((match[1] or match[7]) in _DELICATE for match in _ASSIGNED.finditer(value.text))
    if changes_bash or not (scope.defining or is_harmless(value, scope)):
        why = "bash would evaluate text that may not be a number, and run commands in it."
        yield ask("hidden-code", source, why, "Write the numbers out.")


def change(value: Value, scope: ShellScope) -> None:
    """Store the numbers that an arithmetic text assigns; an error or a && may prevent an assignment."""
    is_certain = _SIMPLE.fullmatch(value.text) is not None
    for match in _ASSIGNED.finditer(value.text):
        name = match[1] or match[7]
        if is_certain or is_harmless(variable_value(name, scope), scope):
            scope.variables[name] = A_NUMBER


def _may_be_element(value: Value) -> bool:
    """Whether unknown text could be the name of an array and a subscript."""
    if "[" in value.text:
        return UNKNOWN in value.text
    return UNKNOWN in value.text or (UNKNOWN_NAME in value.text and bool(value.origins & {A_FILE, UNTRUSTED}))


def subscript(value: Value, scope: ShellScope) -> Value | None:
    """The subscript that bash evaluates in text used as a variable name, such as a[i], or None."""
    match = _ELEMENT.match(value.text)
    if match is None:
        return value if _may_be_element(value) else None
    name, key = match[1], match[2].rpartition("]")[0] or match[2]
    is_known = UNKNOWN not in key and not _SUBSTITUTION_START.search(key) and not value.origins & {A_FILE, UNTRUSTED}
    return None if (name in scope.keyed and is_known) or key in {"@", "*"} else Value(key, value.origins)

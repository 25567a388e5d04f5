"""Predicted output of commands, as far as their arguments determine it (pure)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from agentkit.safety import paths
from agentkit.safety.shell.arguments import parsed
from agentkit.safety.shell.files import listed, may_be_secret, resolve
from agentkit.safety.shell.launchers import matched_names, name_patterns
from agentkit.safety.shell.tables import tables
from agentkit.safety.shell.variables import (
    A_FILE,
    A_REF,
    A_WORD,
    DASHED,
    FOUND,
    NOTHING,
    PERHAPS_EMPTY,
    SUFFIXED,
    UNKNOWN,
    UNKNOWN_NAME,
    ShellScope,
    Value,
    Word,
    composed,
)
from agentkit.safety.shell.word_expansion import ansi

_FORMAT = re.compile(r"%(?:(%)|([-+ #0-9.*']*)([a-zA-Z]))")
_IN_TMP = re.compile(r"((-[dq]+|--directory|--suffix[= ][\w.-]+) )*(-t [\w.-]+ |/tmp/[\w.-]+ )?")
_FILE_NAMERS = {"find", "ls", "grep", "rg", "fd", "git"}
_ALWAYS = {"nproc"}


def prints(words: list[Word], scope: ShellScope) -> Value:
    """The standard output of a command; unknown if the arguments do not determine it."""
    name = words[0].text.rpartition("/")[2]
    groups = tables().groups
    given = (scope.stdin or NOTHING).origins
    origins = composed(given.union(*(word.origins for word in words)))
    if name in groups["fetchers"]:
        return Value(UNKNOWN, origins | {"fetch"})
    if name in groups["decoders"]:
        return Value(UNKNOWN, origins | {"decode"})
    if _prints_only_names(name, words, scope):
        return Value(UNKNOWN_NAME, _name_origins(name, words))
    if name == "mktemp" and _IN_TMP.fullmatch(_arguments(words[1:])):
        made = Value(f"{posixpath.sep}tmp/{UNKNOWN_NAME}")
        scope.written |= {resolve(made.text, scope) or made.text}
        return made
    if name == "find":
        root = next((word.text for word in words[1:] if not re.match(r"-[HLP]$", word.text)), "")
        return Value(root + "/" + UNKNOWN, origins)
    if name == "basename" and A_FILE in origins:
        origins |= {DASHED}
    text = _text(name, words[1:], scope)
    return Value(text.rstrip("\n") if text else UNKNOWN, origins | _sources(name, words[1:], text, scope))


def _sources(name: str, arguments: list[Word], text: str, scope: ShellScope) -> frozenset[str]:
    """The origins of a printed text apart from those of the command's words."""
    if name == "printf":
        may_be_word = re.search(r"%[^%]*[xXeEgGfF]", _arguments(arguments[:1]))  # such as ff or inf
        return frozenset({A_WORD} if may_be_word else ())
    passed = (scope.stdin or NOTHING).origins if text and name in tables().filters else frozenset[str]()
    return passed | listed(arguments, scope) if name == "cat" else passed


def _arguments(words: list[Word]) -> str:
    return "".join(word.text + " " for word in words)


def _prints_only_names(name: str, words: list[Word], scope: ShellScope) -> bool:
    """Whether a command prints only numbers, dates and names inside the workspace."""
    pattern = tables().prints_names.get(name)
    if not pattern or not pattern.fullmatch(_arguments(words[1:])):
        return False
    if name == "find" and any(may_be_secret(word, scope) for word in name_patterns(words)):
        return False
    return name == "date" or all(_within(word, scope) for word in words[1:])


def _name_origins(name: str, words: list[Word]) -> frozenset[str]:
    """The origins that describe which numbers or names a command prints."""
    is_single = name != "grep" or all(word.known for word in words[1:])  # for several files, grep prints their names
    numbers = tables().prints_numbers.get(name)
    counts = is_single and numbers and numbers.fullmatch(_arguments(words[1:]))
    kinds = set() if counts else {A_FILE} if name in _FILE_NAMERS else {A_WORD}
    kinds |= {A_REF} if name == "git" and words[1].text not in {"ls-files", "diff"} else set()
    kinds |= _dash_origins(name, words) if A_FILE in kinds and A_REF not in kinds else frozenset()
    kinds |= {f"{FOUND}**/{pattern}" for pattern in (matched_names(words) if name == "find" else ())}
    return frozenset(kinds if name in _ALWAYS else {*kinds, PERHAPS_EMPTY})


def _dash_origins(name: str, words: list[Word]) -> frozenset[str]:
    """The origins that describe whether a printed file name may begin with a dash, as one without a folder may."""
    if name == "find":
        return frozenset()
    spec = tables().specs.get(name) if name in {"grep", "rg", "ls"} else None
    free = [each.word for each in parsed(spec, words[1:]) if each.kind == "free"][spec.text :] if spec else []
    uncertain = [word for word in free if word.may_be_option or word.may_split]
    if not free or not all(word.depends_on_file_names for word in uncertain) or (name == "ls" and not uncertain):
        return frozenset({DASHED})
    return frozenset({SUFFIXED} if uncertain else ())


def _within(word: Word, scope: ShellScope) -> bool:
    path = resolve(word.text, scope)
    return path is not None and paths.inside(path, scope.workspace)


def _text(name: str, arguments: list[Word], scope: ShellScope) -> str:
    plain = [UNKNOWN if word.glob else word.text for word in arguments]
    if name == "echo":
        return _echo(plain)
    if name == "printf" and not (plain and plain[0].startswith("-v")):
        return "".join(_printf(plain))
    if name in {"basename", "dirname"} and plain and UNKNOWN not in "".join(plain):
        return _part(name, plain)
    if name == "pwd":
        return (scope.cwd or "") if len(scope.folders) == 1 else ""
    # The output of a filter: a single line unchanged, several lines perhaps in another order.
    pattern, text = tables().filters.get(name), (scope.stdin or NOTHING).text
    if pattern is None or not pattern.fullmatch(_arguments(arguments)):
        return ""
    same = name in {"cat", "tee"} or "\n" not in text.rstrip("\n")
    return text if same else ""


def _part(name: str, arguments: list[str]) -> str:
    """The output of basename or dirname; empty if options change it."""
    path, *suffix = [text for text in arguments if text != "--"]
    if path.startswith("-") or len(suffix) > 1 or (name == "dirname" and suffix):
        return ""
    plain = path.rstrip("/") or "/"
    if name == "dirname":
        return (posixpath.dirname(plain) if "/" in plain else ".") or "/"
    last = posixpath.basename(plain) or "/"
    return last.removesuffix(suffix[0]) if suffix and suffix[0] != last else last


def _echo(arguments: list[str]) -> str:
    escapes = False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        escapes |= "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    return ansi(text, echo=True) if escapes else text


def _printf(arguments: list[str]) -> Iterator[str]:
    """The filled-in format, repeated until all arguments are used."""
    arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not arguments:
        return
    form, rest = ansi(arguments[0]), list(arguments[1:])
    while True:
        before = len(rest)
        yield _FORMAT.sub(lambda match: _filled(match, rest), form)
        if not rest or len(rest) == before:
            return


def _filled(match: re.Match[str], rest: list[str]) -> str:
    if match[1]:
        return "%"
    value = rest.pop(0) if rest else ""
    if re.search(r"[.*]", match[2]) or (match[2] and match[3] not in "diufgex"):
        return UNKNOWN
    if match[3] == "b":
        return ansi(value, echo=True)
    return value if match[3] in "sq" else (UNKNOWN_NAME if match[3] in "diufgex" else UNKNOWN)

"""A parser for git's configuration files, the user's identity, and the programs that git would run in a folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from agentkit._dataclass import dataclass
from agentkit.portable_files import NONBLOCK

Setting = tuple[str, str]
"""A key such as `user.name` or `filter.lfs.clean`, and its value. A subsection keeps its case."""

_MAX_BYTES, _MAX_DEPTH, _MAX_SETTINGS = 1_000_000, 10, 20_000
_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]')
_BLANK = re.compile(r"(?:[\s\ufeff]|[#;][^\n]*)*")
_VALUE = r'(?:"(?:[^"\\\n]|\\.|\\\n)*"|\\.|\\\n|[^"\\\n#;])*'
_SETTING = re.compile(rf"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=({_VALUE}))?(?=[#;\n]|\Z)")
_ESCAPED = re.compile(r"\\(.)")
_PIECES = re.compile(r'"(?:[^"\\]|\\.|\\\n)*"|\\.|\\\n|.', re.DOTALL)
_PIECE = re.compile(r'\\(.)|"', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_BOOLEAN = re.compile(r"(?i)true|false|yes|no|on|off|[01]|")

_PROGRAMS = re.compile(
    r"core\.(fsmonitor|pager|editor|sshcommand|gitproxy|askpass|hookspath|alternaterefscommand|worktree|attributesfile)"
    r"|pager\..+|alias\..+|diff\.external|diff\..+\.(command|textconv)|merge\..+\.driver|mergetool\..+|difftool\..+"
    r"|filter\..+\.(clean|smudge|process)|gpg\.(.+\.)?(program|defaultkeycommand)|interactive\.difffilter"
    r"|trailer\..+\.(cmd|command)|(browser|man)\..+\.(cmd|path)|credential\.(.+\.)?helper|sequence\.editor"
    r"|log\.showsignature|submodule\..+\.update|uploadpack\.packobjectshook|extensions\.partialclone"
)
"""Settings that make git run a program, or read its rules from another location."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The name and the e-mail address that git writes into a commit; empty where none is configured."""

    name: str = ""
    email: str = ""


def parse(text: str) -> Iterator[Setting]:
    """Yield the settings of a configuration file, in order. A syntax error ends the file."""
    section, position = "", 0
    while True:
        blank = _BLANK.match(text, position)
        position = blank.end() if blank else position
        if header := _HEADER.match(text, position):
            name, subsection = header.groups()
            section = name.lower() + ("." + _ESCAPED.sub(r"\1", subsection) if subsection else "")
            position = header.end()
        elif section and (match := _SETTING.match(text, position)):
            name, value = match.groups()
            yield f"{section}.{name.lower()}", "true" if value is None else _unquote(value)
            position = match.end()
        else:
            return


def _unquote(value: str) -> str:
    """Remove the quotes of a value, and blanks around its unquoted parts."""
    pieces = _PIECES.findall(value.lstrip(" \t"))
    while pieces and pieces[-1] in (" ", "\t"):
        pieces.pop()
    return "".join(_PIECE.sub(lambda found: _ESCAPES.get(found[1], ""), piece) for piece in pieces if piece != '""')


def read(path: str, applies: Callable[[str, str], bool] = lambda _condition, _path: False) -> list[Setting]:
    """The settings of a file and of those that it includes, in order; empty if it cannot be read.

    `applies` decides whether a conditional include counts, by its condition and the file that has it.
    """
    found: list[Setting] = []
    _read_into(found, path, applies, _MAX_DEPTH)
    return found


def _read_into(found: list[Setting], path: str, applies: Callable[[str, str], bool], depth: int) -> None:
    for key, value in parse(_read_text(path)):
        if len(found) >= _MAX_SETTINGS:
            return
        found.append((key, value))
        lower = key.lower()
        included = lower == "include.path" or (
            lower.startswith("includeif.") and lower.endswith(".path") and applies(key[10:-5], path)
        )
        if included and depth:
            target = os.path.join(os.path.dirname(path), os.path.expanduser(value))
            _read_into(found, target, applies, depth - 1)


def _read_text(path: str) -> str:
    with contextlib.suppress(OSError), open(os.open(path, os.O_RDONLY | NONBLOCK), "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    return ""


def last_value(settings: Iterable[Setting], key: str) -> str | None:
    """The effective value of a setting, which is the last one."""
    values = [value for name, value in settings if name.lower() == key]
    return values[-1] if values else None


def identity(environment: Mapping[str, str], git_dir: str | None = None) -> Identity:
    """The name and address in the user's own configuration, conditional includes for this repository followed."""
    home = environment.get("HOME", "")
    settings: list[Setting] = []
    for path in _global_files(environment, home):
        settings += read(path, lambda condition, of: _applies(condition, of, git_dir, home))
    name, email = last_value(settings, "user.name"), last_value(settings, "user.email")
    return Identity(_to_line(name or ""), _to_line(email or ""))


def _to_line(text: str) -> str:
    """A value without unprintable characters, shortened to fit into a line of a commit."""
    return "".join(char for char in text if char.isprintable())[:1_000].strip()


def _global_files(environment: Mapping[str, str], home: str) -> list[str]:
    if "GIT_CONFIG_GLOBAL" in environment:
        return [environment["GIT_CONFIG_GLOBAL"]]
    folder = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return [f"{folder}/git/config", f"{home}/.gitconfig"]


def _applies(condition: str, of: str, git_dir: str | None, home: str) -> bool:
    """Whether `gitdir:` or `gitdir/i:` fits this repository; other conditions never do."""
    kind, _, pattern = condition.partition(":")
    if git_dir is None or kind not in ("gitdir", "gitdir/i"):
        return False
    if pattern.startswith("~/"):
        pattern = home + pattern[1:]
    elif pattern.startswith("./"):
        pattern = os.path.dirname(of) + pattern[1:]
    elif not pattern.startswith("/"):
        pattern = f"**/{pattern}"
    pattern += "**" if pattern.endswith("/") else ""
    flags = re.IGNORECASE if kind == "gitdir/i" else 0
    return any(re.fullmatch(_to_regex(each), git_dir, flags) for each in {pattern, _resolve_links(pattern)})


def _resolve_links(pattern: str) -> str:
    """The pattern with the links of its fixed first part followed, as git does."""
    fixed = re.match(r"[^*?\[]*/", pattern)
    return os.path.realpath(fixed[0]).rstrip("/") + "/" + pattern[fixed.end() :] if fixed else pattern


def _to_regex(pattern: str) -> str:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern))


def names_programs(settings: Iterable[Setting]) -> list[str]:
    """The keys of settings that make git run a program or read further rules, each once."""
    found = [key for key, value in settings if _PROGRAMS.fullmatch(key.lower()) and not _is_harmless(key, value)]
    return list(dict.fromkeys(found))


def _is_harmless(key: str, value: str) -> bool:
    """Whether the value of a setting that can name a program only disables it."""
    lower = key.lower()
    if lower == "core.fsmonitor" or lower.startswith("pager."):
        return value.lower() in ("", "false", "no", "off", "0") or (lower != "core.fsmonitor" and value == "true")
    return lower == "log.showsignature" and bool(_BOOLEAN.fullmatch(value)) and value.lower() in ("false", "no", "off")


_MAX_SEARCHED = 20_000


def programs_in(folder: str) -> list[str]:
    """Settings and hooks that make git run programs when it reads in, above or below this folder.

    Every `.git` counts. A folder that is too large to search is reported as such.
    """
    found: list[str] = []
    for git_dir in _git_dirs(folder):
        if git_dir is None:
            return [*found, f"more than {_MAX_SEARCHED:,} files to search for repositories"]
        for name in ("config", "config.worktree"):
            found += names_programs(read(f"{git_dir}/{name}", lambda *_: True))
        found += [f"the hook {name}" for name in _hooks(f"{git_dir}/hooks")]
    return list(dict.fromkeys(found))


def _git_dirs(folder: str) -> Iterator[str | None]:
    """Every repository that git may use in, above or below the folder; None if the search reaches its limit."""
    above = os.path.realpath(folder)
    while above != "/":
        yield from _named(f"{above}/.git")
        above = os.path.dirname(above)
    left = _MAX_SEARCHED
    for parent, folders, files in os.walk(folder):
        if ".git" in folders or ".git" in files:
            yield from _named(f"{parent}/.git")
            folders[:] = [name for name in folders if name != ".git"]
        left -= len(folders) + len(files)
        if left < 0:
            yield None


def _named(path: str) -> list[str]:
    """The folders whose settings apply to a `.git`: the folder itself, or those that the file points to."""
    if not os.path.lexists(path):
        return []
    place = path
    if os.path.isfile(path):
        place = os.path.join(os.path.dirname(path), _pointer(path).removeprefix("gitdir: "))
    common = _pointer(f"{place}/commondir")
    return [place, os.path.join(place, common)] if common else [place]


def _pointer(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(4_096).strip().replace("\0", "")
    return ""


def _hooks(folder: str) -> list[str]:
    """The hooks that git would run."""
    with contextlib.suppress(OSError), os.scandir(folder) as scan:
        return sorted(e.name for e in scan if not e.name.endswith(".sample") and os.access(e.path, os.X_OK))
    return []

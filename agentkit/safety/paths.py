"""Secret and protected paths.

Every part of agentkit that treats some files differently from others (the sandbox, the file tools, the judge of shell
commands, the documentation) takes the kinds of paths from paths.txt (`groups`). Nothing here looks
at the paths themselves.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from agentkit._dataclass import dataclass
from agentkit.text_encoding import read_table

_HOME = re.compile(r"^(?:~[\w.-]*|\$home\b|\$\{home\})(?=/|$)")
_PROC_LINK = re.compile(r"^/proc/(?:self|thread-self|\d+)/(?:task/\d+/)?(?:root|cwd)(?=/|$)")
_UNRESOLVABLE = re.compile(r"[$`\x00]")

_TEMPLATE = r"([^/]*[._-])?(example|sample|template|dist|defaults?)$"


class Group(NamedTuple):
    """Kinds of paths that are treated alike: rows of a reason and a pattern, which begins with a slash.

    `hidden`: a sandboxed command cannot read the file. `denied`: the file tools refuse it. `locked`: a command cannot
    change the file; one that it creates is removed. `asked`: writing the file needs approval, by a file tool or by a
    command that names it. `in_packages`: whether `hidden` and `locked` apply below `PACKAGE_FOLDERS`.
    """

    name: str
    rows: tuple[tuple[str, str], ...]
    in_packages: bool
    hidden: bool = False
    denied: bool = False
    locked: bool = False
    asked: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the rows."""
        return tuple(pattern for _, pattern in self.rows)


@cache
def groups() -> tuple[Group, ...]:
    """The table of secret and protected paths, read from paths.txt."""
    found: list[Group] = []
    for row in read_table(Path(__file__).with_suffix(".txt")):
        if row[0].startswith("["):
            name, _, marks = row[0].strip("[]").partition(": ")
            treatment = {mark: mark in marks.split(", ") for mark in ("hidden", "denied", "locked", "asked")}
            found.append(Group(name, (), "not in packages" not in marks, **treatment))
        else:
            rows = (*found[-1].rows, (row[0], row[1].replace("{template}", _TEMPLATE)))
            found[-1] = found[-1]._replace(rows=rows)
    return tuple(found)


HOME = "/home/~"
"""Placeholder for the home folder of any user."""

SECRETS_OF_THE_SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/proc/self/environ", "/proc/1/environ")
SECRETS_OF_HOMES = (
    *(".ssh/id_rsa", ".aws/credentials", ".netrc", ".bash_history", ".gnupg/secring.gpg", ".kube/config"),
    *(".docker/config.json", ".git-credentials", ".npmrc", ".pgpass"),
)
SECRETS_OF_FOLDERS = (
    *(".env", ".env.local", ".netrc", ".ssh/id_rsa", ".npmrc", ".git-credentials", ".aws/credentials", ".pgpass"),
    *("id_rsa", "id_ed25519", "qz.pem", "qz.key", "qz.p12", "qz.pfx", "prod.env", ".pypirc", ".docker/config.json"),
)
PROTECTED_NAMES = (".git", ".github", "workflows", ".vscode", ".idea", ".husky", ".bashrc", ".zshrc", ".profile")
"""Samples of the table, to test which of them a shell pattern could match."""

PACKAGE_FOLDERS = frozenset({"node_modules", "bower_components", "site-packages", "dist-packages"})
"""Folders of installed packages, which contain public certificates and settings."""

HIDDEN_PLACES = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/ssh", "/etc/kubernetes", "/etc/letsencrypt", "/etc/docker", "/etc/wireguard"),
    *("/etc/openvpn", "/etc/krb5.keytab", "/etc/NetworkManager/system-connections", "/etc/ppp"),
    *("/etc/security/opasswd", "/var/lib/kubelet", "/var/lib/docker", "/var/lib/cloud", "/var/lib/sss"),
    *("/var/spool", "/var/backups", "/var/log", "/var/mail", "/boot"),
)
"""System folders and files that are hidden from commands."""


_BACKUP_SUFFIX = re.compile(r"(?<=[^/])(?:~|\.~\d{1,9}~|\.(?:bak|old|orig|save|sav|sw[a-p])\d{0,9}){1,9}\Z")
"""Suffixes of copies made by editors and users; swap files and locks also begin with a dot."""

_IN_MARKS = re.compile(r"/(?:#([^/]+)#|\.#([^/]+))\Z")


_MAX_CHARS = 4_096
"""Maximum length of a path; no system opens a longer one."""

_INVISIBLE = re.compile("[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Invisible characters, which some file systems ignore in names."""

_TRAILING = re.compile(r"(?<=[^/ .])[ .]+(?=/|\Z)")
"""Spaces and dots at the end of a name, which some systems drop."""

_CAPTURING = re.compile(r"(?<!\\)\((?!\?)")


@cache
def _line_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the lines of a text that end in one of these paths. Without groups it is compiled and matched faster."""
    each = (_CAPTURING.sub("(?:", pattern[1:]).replace("[^/]", r"[^/\n]") for pattern in patterns)
    return re.compile(rf"/(?:{'|'.join(each)})$", re.MULTILINE)


class _Table:
    """The groups that are treated in one way.

    The pattern of a group serves all tables. It is created on first use, because that takes longer than a judgement.
    """

    def __init__(self, chosen: Callable[[Group], bool]) -> None:
        self._chosen = chosen

    @cached_property
    def _groups(self) -> tuple[tuple[Group, re.Pattern[str]], ...]:
        return tuple((each, _line_pattern(each.patterns)) for each in groups() if self._chosen(each))

    def group(self, plain: str) -> Group | None:
        """The first group that the path matches, or None."""
        line = plain.replace("\n", " ")
        return next((group for group, pattern in self._groups if pattern.search(line)), None)

    def reason(self, plain: str) -> str | None:
        """The reason why the path matches, or None."""
        found, line = self.group(plain), plain.replace("\n", " ")
        rows = () if found is None else found.rows
        return next((reason for reason, pattern in rows if _line_pattern((pattern,)).search(line)), None)

    def names_in(self, text: str) -> set[str]:
        """The last names of the lines that match."""
        return {match[0].rpartition("/")[2] for _, pattern in self._groups for match in pattern.finditer(text)}


_DENIED, _ASKED = _Table(lambda group: group.denied), _Table(lambda group: group.asked)
_HIDDEN = _Table(lambda group: group.hidden), _Table(lambda group: group.hidden and group.in_packages)
_LOCKED = _Table(lambda group: group.locked), _Table(lambda group: group.locked and group.in_packages)
_OWN = _Table(lambda group: group.name == "settings of agentkit")
_HIDDEN_OR_LOCKED = _Table(lambda group: group.hidden or group.locked)


def _normal_form(path: str) -> str:
    """The case-folded normal form from a slash on; a home's spelling is dropped, as are links through /proc."""
    visible_path = path if path.isascii() else _INVISIBLE.sub("", path)
    folded = _HOME.sub("/home/user", visible_path.strip().casefold().removeprefix("file://"))
    normalised = _TRAILING.sub("", re.sub("/+", "/", posixpath.normpath("/" + folded)))
    return re.sub("/+", "/", "/" + _PROC_LINK.sub("", normalised))[-_MAX_CHARS:]


def _originals(path: str) -> Iterator[str]:
    """The normal form of the path that this one is, or can be a copy of."""
    plain = _normal_form(path)
    original = _BACKUP_SUFFIX.sub("", _IN_MARKS.sub(r"/\1\2", plain) if "#" in plain else plain)
    yield original
    if original != plain:
        folder, _, name = original.rpartition("/")
        yield f"{folder}/{name.removeprefix('.')}"


def secret(path: str) -> str | None:
    """The kind of secret in `path`, such as "SSH keys", or None; matches any spelling of the name, and copies."""
    return next(filter(None, map(_DENIED.reason, _originals(path))), None)


def protected(path: str) -> str | None:
    """The reason why writing `path` needs approval, such as that other programs run it later; otherwise None."""
    return _ASKED.reason(_normal_form(path))


def hidden(path: str, *, packaged: bool = False) -> bool:
    """Whether a sandboxed command must not read `path`; `packaged` if it is in a folder of packages."""
    return any(map(_HIDDEN[packaged].group, _originals(path)))


def locked(path: str, *, packaged: bool = False) -> bool:
    """Whether a sandboxed command must neither change nor create `path`."""
    return _LOCKED[packaged].group(_normal_form(path)) is not None


def own_settings(path: str) -> bool:
    """Whether `path` sets what agents of this toolkit may do."""
    return _OWN.group(_normal_form(path)) is not None


_UNUSUAL = re.compile(r"[^\x20-\x7e]|\A\.?#|[~ .]\Z|\.(bak|old|orig|save|sav|sw[a-p])\d*\Z", re.IGNORECASE)
"""Names that can be read in more than one way."""


_BEGINNING = re.compile(
    r"/(\.|(etc|proc|dev|var|run|tmp|library|maildir|huggingface|sitecustomize|usercustomize|_darcs|tools)(/|\Z))"
)
"""Prefixes of all patterns with several path parts; below other folders only the last name matters."""


def candidates(folder: str, names: Sequence[str]) -> list[str]:
    """The names in a folder that may be hidden or locked: a superset, quick to compute."""
    ordinary: dict[str, list[str]] = {}
    found: list[str] = []
    for name in names:
        if _UNUSUAL.search(name):
            found.append(name)
        else:
            ordinary.setdefault(name.casefold(), []).append(name)
    above = "/" + folder.replace("\n", " ").casefold().strip("/")
    start = above if _BEGINNING.search(above) else ""
    text = "\n".join(f"{start}/{name}" for name in ordinary)
    return found + [name for hit in _HIDDEN_OR_LOCKED.names_in(text) for name in ordinary[hit]]


def resolve(path: str, folder: str, home: str | None = None) -> str | None:
    """The absolute normal form of `path` relative to the absolute `folder`; None if its text does not determine it.

    A leading ~ or $HOME is `home`; other variables, substitutions and homes of other users are not resolved.
    """
    for mark in ("${HOME}", "$HOME", "~"):
        if path == mark or path.startswith(mark + "/"):
            if home is None:
                return None
            path = home + path[len(mark) :]
            break
    if _UNRESOLVABLE.search(path) or path.startswith("~"):
        return None
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def inside(path: str, root: str) -> bool:
    """Whether the absolute `path` is `root` or below it, by their normal forms."""
    path, root = (posixpath.normpath(text).lstrip("/") for text in (path, root))
    return root in {"", "."} or path == root or path.startswith(root + "/")


@dataclass(frozen=True, slots=True)
class Place:
    """A location: the path relative to the base folder, None outside of it, and each absolute spelling."""

    relative: str | None
    absolute: tuple[str, ...]

    def is_below(self, folder: str) -> bool:
        """Whether the place is the folder or in it; an absolute folder is compared with the absolute spellings."""
        if folder.startswith("/"):
            return any(is_below(each, folder) for each in self.absolute)
        return self.relative is not None and is_below(self.relative, folder)

    def is_at(self, path: Any) -> bool:
        """Whether this is the place that a path names; an absolute path is compared with the absolute spellings."""
        if not isinstance(path, str):
            return False
        return normal(path) in (self.absolute if path.startswith("/") else (self.relative,))

    @property
    def spellings(self) -> Iterator[str]:
        """Every spelling of the place."""
        if self.relative is not None:
            yield self.relative
        yield from self.absolute


@dataclass(frozen=True, slots=True)
class Located:
    """The paths in one argument: for each the named location and the real one, with all links followed.

    `is_list` is true if the argument is a list of paths, `is_complete` if the location of each was found.
    """

    paths: tuple[tuple[Place, ...], ...]
    is_list: bool = False
    is_complete: bool = True

    @property
    def places(self) -> list[Place]:
        """All places of all paths."""
        return [place for path in self.paths for place in path]

    def relative(self) -> Sequence[Any] | None:
        """The argument with the named and with the real paths, relative; None if one is outside of the base folder."""
        if not self.is_complete or any(place.relative is None for place in self.places):
            return None
        columns = list(zip(*[[place.relative for place in path] for path in self.paths], strict=True))
        return [list(column) for column in columns] if self.is_list else [column[0] for column in columns]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Facts about a call that rules need: the real locations of its paths and of folders in rules.

    `user_written` are the names of the arguments whose values the user wrote.
    """

    arguments: Mapping[str, Located] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    user_written: Collection[str] = ()


NO_FACTS = CallFacts()
"""The facts of a call without paths and without arguments that the user wrote."""


def is_below(path: Any, folder: str) -> bool:
    """Whether a path is a folder or in it, by their text; a relative path is compared as if it began at `/`."""
    resolved = resolve(path, "/") if isinstance(path, str) else None
    return resolved is not None and inside(resolved, f"/{folder.strip('/')}")


def normal(path: str) -> str:
    """A path without `.`, `..` and repeated or trailing slashes; links are not followed."""
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else posixpath.normpath(path)


def folded(path: str) -> str:
    """The form of a path that is compared by file systems that ignore case and Unicode composition."""
    return unicodedata.normalize("NFC", path).casefold()

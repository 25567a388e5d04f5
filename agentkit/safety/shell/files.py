"""Reads, writes and deletions of paths (pure)."""

from __future__ import annotations

import fnmatch
import glob
import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from agentkit.decisions import Decision
from agentkit.safety import paths
from agentkit.safety.shell.variables import (
    BELOW,
    FOUND,
    LISTED,
    PATTERN,
    UNKNOWN,
    UNKNOWN_NAME,
    ShellScope,
    Word,
    ask,
    deny,
    reads,
    undoes,
    writes,
)

_SECRET_SAMPLES = (
    *paths.SECRETS_OF_THE_SYSTEM,
    *(f"{home}/{name}" for home in (paths.HOME, "/root", "/home/user") for name in paths.SECRETS_OF_HOMES),
)
_SYSTEM = re.compile(r"/(etc|usr|bin|sbin|lib\w*|boot|dev|proc|sys|var|opt|srv|run|snap|System|Library)(/|$)")
_TEMPORARY = re.compile(r"/(var/)?tmp/(?![*?.\[])[^/]+")
_SCRATCH = re.compile(r"/(var/)?tmp(/|\Z)")
_SINKS = re.compile(r"/dev/(null|stdout|stderr|stdin|tty|fd/\d+)$")
_ENDLESS = re.compile(r"/dev/(zero|u?random|full)$")
_CONNECTION = re.compile(r"/dev/(tcp|udp)/")
_MAX_PARTS, _MAX_TAILS = 20, 9
EVERYTHING = ("**/*", "**/.*")
"""Patterns for all files of the workspace."""
_DEVICE = re.compile(r"/dev/")
_READABLE = re.compile(
    r"/(usr|bin|sbin|lib\w*|opt)(/|$)|/etc/(?!passwd|group|hosts|ssh|krb5|ldap|crontab|cron|fstab|exports)"
    r"|/proc/(cpuinfo|meminfo|version|loadavg|uptime|stat|mounts|filesystems|partitions|diskstats|swaps|sys/(kernel|vm|fs|net)/[\w./-]+|self/(status|limits|stat))$"
    r"|/sys/(class|devices|fs/cgroup)(/|$)"
)
_LISTABLE = re.compile(r"/(?!root|home)\w*/?$")
_EXAMPLE = re.compile(r"(^|[=@:,])(?=[/~.\w])")
_SEPARATORS = re.compile(r"[=@:,]")


def resolve(text: str, scope: ShellScope) -> str | None:
    """The absolute path that a text names; None if unknown."""
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if UNKNOWN in text or (scope.cwd is None and not text.startswith("/")):
        return None
    return paths.resolve(
        text.replace(UNKNOWN_NAME, "name").replace("$", "_").replace("`", "_"), scope.cwd or "/", paths.HOME
    )


def _record_path(word: Word, scope: ShellScope) -> str | None:
    """The absolute path that a word names, which is recorded as a place of the command; None if unknown."""
    path = resolve(word.text, scope)
    if path is not None:
        scope.places.add(path)
    return path


def record_script(word: Word, scope: ShellScope) -> str | None:
    """The absolute path of a file whose content is run; it is recorded as a script of the command."""
    path = _record_path(word, scope)
    if path is not None:
        scope.scripts.update(_script_patterns(word, path, scope))
    return path


def _script_patterns(word: Word, path: str, scope: ShellScope) -> Iterator[str]:
    """A path, or the patterns that it matches if its name comes from a loop or from find."""
    below = [origin.removeprefix(BELOW) for origin in word.origins if origin.startswith(BELOW)]
    found = [origin.removeprefix(FOUND) for origin in word.origins if origin.startswith(FOUND)]
    if below:
        yield from (f"{glob.escape(path)}/**/{name}" for name in below)
    elif word.text == UNKNOWN_NAME and found:
        yield from (f"{glob.escape(posixpath.dirname(path))}/{name}" for name in found)
    elif UNKNOWN_NAME in word.text:
        yield resolve(word.text.replace(UNKNOWN_NAME, "*"), scope) or path
    else:
        yield path


def secret(text: str, scope: ShellScope) -> str | None:
    """The reason why a path is secret, or None; inside the workspace only the relative path is considered."""
    path = resolve(text, scope)
    if path is None:
        return paths.secret(text)
    if paths.inside(path, scope.workspace):
        return paths.secret(posixpath.relpath(path, scope.workspace))
    return paths.secret(path)


def _secret_glob(word: Word, scope: ShellScope) -> str | None:
    """A secret that a pattern could match: by its absolute path, or anywhere by its last parts."""
    if not (word.glob or PATTERN in word.origins):
        return None
    folded = re.sub(r"[@+!?*]\([^)]*\)", "*", word.text)
    pattern = resolve(folded, scope) or "/" + folded.lstrip("/")
    found = next((s for s in _SECRET_SAMPLES if s.count("/") == pattern.count("/") and _matches(s, pattern)), None)
    return found or next((name for name in paths.SECRETS_OF_FOLDERS if _ends_in(name, pattern)), None)


def _ends_in(name: str, pattern: str) -> bool:
    last = "/".join(pattern.split("/")[-1 - name.count("/") :])
    everything = not last.strip("*?./") and not re.search(r"(^|/)\.", last)
    return not everything and last.count("/") == name.count("/") and _matches(name, last)


def _matches(sample: str, pattern: str) -> bool:
    """Match like bash: part by part, with a leading dot only if the pattern has it."""
    pairs = zip(sample.split("/"), pattern.split("/"), strict=True)
    return all(fnmatch.fnmatchcase(a, b) and (not a.startswith(".") or b.startswith((".", "["))) for a, b in pairs)


def may_be_secret(word: Word, scope: ShellScope) -> bool:
    """Whether a pattern, such as an argument of find -name, could match a secret."""
    return _secret_glob(replace(word, glob=True), scope) is not None


def secrets(word: Word, scope: ShellScope, *, listing: bool = False) -> Iterator[Decision]:
    """Objections to a secret path in an argument: alone, after = @ : or a short flag."""
    text = word.text
    starts = [match.end() for match in islice(_EXAMPLE.finditer(text), _MAX_TAILS)]
    candidates = {text, *(text[start:] for start in starts)}
    candidates |= set(_SEPARATORS.split(text)) if len(starts) == _MAX_TAILS else set()
    candidates |= {text[2:]} if re.match(r"-[A-Za-z][/~.]", text) else set()
    if text.startswith("-") or "\n" in text:
        candidates.discard(text)
    for candidate in candidates:
        reason = secret(candidate, scope)
        if reason:
            yield _names_secret(word, reason)
            return
    sample = _secret_glob(word, scope)
    if sample and not (listing and sample in paths.SECRETS_OF_FOLDERS):
        if sample in paths.SECRETS_OF_FOLDERS:
            yield ask("secret", word.source, "The pattern could match files that contain keys.", "Name the files.")
        else:
            yield _names_secret(word, "a pattern that reaches secrets")


def _names_secret(word: Word, reason: str) -> Decision:
    return deny("secret", word.source, f"it names {reason}.", "Ask the user for the information without the secret.")


def read(word: Word, scope: ShellScope, *, listing: bool = False) -> Iterator[Decision]:
    """Objections to reading a path."""
    if word.text == "-" or _SINKS.match(word.text):
        return
    path = _record_path(word, scope)
    if path is None:
        yield ask(
            "unknown-path", word.source, "The files that it reads are only known when it runs.", "Name the files."
        )
    elif _CONNECTION.match(path):
        yield deny("reverse-shell", word.source, "it opens a network connection that can serve as a remote shell.")
    elif _ENDLESS.match(path):
        yield from _endless(word, scope)
    elif _DEVICE.match(path) and not _SINKS.match(path):
        yield from _device(word)
    elif not (paths.inside(path, scope.workspace) or _READABLE.match(path) or _is_public(path, scope, listing=listing)):
        yield ask("outside-read", word.source, "It reads outside the workspace.", "Read files of the workspace.")
    elif scope.exposed and not listing:
        yield from _exposed_secrets(word, path, scope)


def listed(words: list[Word], scope: ShellScope) -> frozenset[str]:
    """The origin of the contents of these files, if all of them existed in the workspace before the command."""
    found = [resolve(word.text, scope) for word in words]
    are_own = found and all(
        path and paths.inside(path, scope.workspace) and path not in scope.written for path in found
    )
    return frozenset({LISTED}) if are_own and not any(secret(word.text, scope) for word in words) else frozenset()


def _endless(word: Word, scope: ShellScope) -> Iterator[Decision]:
    """Objections to reading an endless device, unless `head` limits it."""
    if not scope.bounded:
        yield ask("endless", word.source, "It reads a device that never ends.", "Limit it, as in head -c 16.")


def _is_public(path: str, scope: ShellScope, *, listing: bool) -> bool:
    """Whether reading a path shows no content of the host: only names, or files that this command created."""
    return bool(listing and _LISTABLE.match(path)) or (
        _is_scratch_path(path, scope) and (listing or path in scope.written)
    )


def _is_scratch_path(path: str, scope: ShellScope) -> bool:
    """Whether a path is in the sandbox's temporary folder, which is empty before the command and deleted after it."""
    own = scope.contained and bool(_SCRATCH.match(path)) and not paths.inside(scope.workspace, path)
    return own and not paths.protected(path)


def is_scratch(word: Word, scope: ShellScope) -> bool:
    """Whether a word names a path in the sandbox's temporary folder."""
    path = resolve(word.text, scope)
    return path is not None and not paths.inside(path, scope.workspace) and _is_scratch_path(path, scope)


def outside(word: Word, scope: ShellScope, *, written: bool = False) -> Iterator[Decision]:
    """Objections to a flag with a path outside of the workspace, even if the flag takes no value."""
    if re.match(r"[/~]|\.\.(/|$)", word.text):
        yield from write(word, scope) if written else read(word, scope, listing=True)


def _variants(pattern: str) -> Iterator[str]:
    """A pattern, and its variants with a part replaced by a name that may be protected."""
    yield pattern
    parts = pattern.split("/")
    patterns = ((index, part) for index, part in enumerate(parts) if set("*?[") & set(part))
    for index, part in islice(patterns, _MAX_PARTS):
        names = (name for name in paths.PROTECTED_NAMES if _matches(name, part))
        yield from ("/".join([*parts[:index], name, *parts[index + 1 :]]) for name in names)


def _device(word: Word) -> Iterator[Decision]:
    yield deny("device", word.source, "it reads or writes a device of the machine.")


def _exposed_secrets(word: Word, path: str, scope: ShellScope) -> Iterator[Decision]:
    """Objections to reading a path that is or contains a file with keys, if keys are not hidden."""
    parts = path.count("/") + 1
    above = {"/".join(place.split("/")[:parts]) for place in scope.exposed}
    is_open = word.glob or PATTERN in word.origins
    if above and (
        UNKNOWN_NAME in word.text or any(each == path or (is_open and _matches(each, path)) for each in above)
    ):
        why = "It could read files that contain keys; on this machine they are not hidden from commands."
        yield ask("exposed", word.source, why, "Name the files.")


def write(word: Word, scope: ShellScope) -> Iterator[Decision]:
    """Objections to writing a path, or an allowed finding; nothing for output descriptors."""
    if word.text == "-" or _SINKS.match(word.text):
        return
    path = _record_path(word, scope)
    if path is None:
        yield ask("unknown-path", word.source, "The file that it writes is only known when it runs.", "Name the file.")
        return
    scope.written.add(path)
    reason = secret(word.text, scope)
    within = paths.inside(path, scope.workspace)
    if reason:
        yield _secret_written(word, reason, within=within)
    elif within:
        yield from _write_within(word, path, scope)
    elif _is_scratch_path(path, scope):
        yield reads(word.source)
    else:
        yield from _write_outside(word, path)


def _secret_written(word: Word, reason: str, *, within: bool) -> Decision:
    if within and reason.startswith("an environment file"):
        return ask("secret", word.source, "It writes an environment file with keys.", "Write an example file instead.")
    return _names_secret(word, reason)


def _write_within(word: Word, path: str, scope: ShellScope) -> Iterator[Decision]:
    place = posixpath.relpath(path, scope.workspace)
    is_open = word.glob or PATTERN in word.origins
    reason = next(filter(None, map(paths.protected, _variants(place) if is_open else (place,))), None)
    if reason:
        yield ask("protected", word.source, f"It changes a file that other programs run or obey later: {reason}.")
    else:
        scope.touched.update(f"{each}/" for each in path_patterns(word, path, scope) or ["**/*"])
        yield writes(word.source)


def _write_outside(word: Word, path: str) -> Iterator[Decision]:
    if _CONNECTION.match(path):
        yield deny("reverse-shell", word.source, "it opens a network connection that can serve as a remote shell.")
    elif _DEVICE.match(path):
        yield from _device(word)
    elif re.match(rf"({paths.HOME}|/home/[^/]+|/root|/Users/[^/]+)/\.", path) or paths.protected(path):
        yield deny("persistence", word.source, "it changes settings or code that runs later outside the workspace.")
    elif _SYSTEM.match(path):
        yield deny("system-write", word.source, "it changes system files.")
    else:
        why = "It writes outside the workspace."
        yield ask("outside-write", word.source, why, "Write inside the workspace.", egress=True)


def delete(word: Word, scope: ShellScope, what: str = "deletes") -> Iterator[Decision]:
    """Objections to destroying a path, or an undoable finding; denied outside of the workspace."""
    if not word.text:  # no file has an empty name
        return
    path = _record_path(word, scope)
    if path is None:
        if re.match(r"(/|~|\.\.)", word.text):
            yield deny("delete-tree", word.source, f"it {what} files outside the workspace.")
        else:
            yield ask(
                "unknown-path", word.source, f"The files that it {what} are only known when it runs.", "Name the files."
            )
    elif paths.inside(path, scope.workspace):
        yield from _delete_within(word, path, scope, what)
    elif path in scope.written and _is_scratch_path(path, scope):
        yield reads(word.source)
    elif _TEMPORARY.match(path):
        yield ask("delete", word.source, f"It {what} temporary files outside the workspace.", egress=True)
    else:
        yield deny("delete-tree", word.source, f"it {what} files outside the workspace.")


def _delete_within(word: Word, path: str, scope: ShellScope, what: str) -> Iterator[Decision]:
    place, patterns = posixpath.relpath(path, scope.workspace), path_patterns(word, path, scope)
    if patterns == ["."] and what == "deletes":
        yield deny("delete-tree", word.source, "it deletes the whole workspace.", "Name the files to delete.")
        return
    reason = next(filter(None, map(paths.protected, _variants(place))), None)
    is_lost = what == "moves away" or not patterns or any(map(is_all, patterns)) or scope.links
    if is_lost or not scope.undoable:
        yield ask("delete", word.source, f"It {what} files of the workspace for good.", "Move them aside instead.")
    elif reason:
        yield ask("protected", word.source, f"It {what} files that other programs run or obey later: {reason}.")
    else:
        scope.destroyed.update(patterns if what == "deletes" else [f"{each}/" for each in patterns])
        yield undoes(word.source)


def path_patterns(word: Word, path: str, scope: ShellScope) -> list[str]:
    """Patterns, relative to the workspace, that match every path that the word can expand to; empty if unknown.

    They can match more paths than that. `agentkit.workspace.restorable` describes their form.
    """
    place = posixpath.relpath(path, scope.workspace)
    below = [origin.removeprefix(BELOW) for origin in word.origins if origin.startswith(BELOW)]
    if below:
        return [pattern for name in below for pattern in _named_below(place, name)]
    if UNKNOWN_NAME in word.text:
        found = [origin.removeprefix(FOUND) for origin in word.origins if origin.startswith(FOUND)]
        here = glob.escape(posixpath.relpath(scope.cwd or "/", scope.workspace))
        patterns = [
            f"/{name}" if name.startswith("**/") else f"/{here}/{name}" for name in found if word.text == UNKNOWN_NAME
        ]
        return patterns or _unknown_name_patterns(word.text, scope)
    if not (word.glob or PATTERN in word.origins):
        return [glob.escape(place)]
    literal = [glob.escape(place)] if "[" in place else []  # bash leaves a pattern without a match unchanged
    return [] if "**" in place else ["/".join(map(widen_pattern, place.split("/"))), *literal]


def _named_below(place: str, name: str) -> list[str]:
    """The patterns for paths below a place whose names match, and for the place if its name matches."""
    patterns = [f"{glob.escape(place)}/**/{name}"]
    own = fnmatch.fnmatchcase(posixpath.basename(place).lower(), name.lower())
    return [*patterns, glob.escape(place)] if own and place != "." else patterns


def _unknown_name_patterns(text: str, scope: ShellScope) -> list[str]:
    """The pattern for a path with an unknown part: a name, or a relative path that does not lead upwards."""
    folder = resolve(text.partition(UNKNOWN_NAME)[0] + "x", scope)
    if folder is None or not paths.inside(folder, scope.workspace):
        return []
    place, last = posixpath.relpath(posixpath.dirname(folder), scope.workspace), text.rpartition(UNKNOWN_NAME)[2]
    name = widen_pattern(last.rpartition("/")[2] if "/" in last else f"*{last}")
    return [f"/{glob.escape(place)}/**/{name}"]


def widen_pattern(part: str) -> str:
    """Widen a part of a pattern to one with only * and ?: it matches everything that brackets match, and more."""
    plain = re.sub(r"\[[!^]?[^\[\]/]+\]", "?", part)
    return "*" if re.search(r"[\[\](]", plain) else plain


def is_all(pattern: str) -> bool:
    """Whether a pattern matches everything in the workspace, except perhaps names that begin with a dot."""
    return all(not part.strip("*?.") for part in pattern.rstrip("/").split("/"))

"""The file system that a sandboxed program sees, and its access to SQLite databases."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import SandboxError
from agentkit.safety.paths import HIDDEN_PLACES, secret
from agentkit.sandbox.protocol import cover_description, make_cover
from agentkit.sandbox.secret_search import NOTHING_FOUND, Survey


def _split_names(table: str) -> tuple[str, ...]:
    return tuple(table.split())


_EMPTY_FOLDERS = ("/tmp", "/var/tmp", "/run", "/var/run")
"""Folders with files and sockets of other programs; they are empty in the sandbox."""

_HOMES = ("/root", "/home")
_TOOLCHAINS = _split_names("""
.pyenv .rbenv .nvm .nodenv .asdf .volta .bun .deno .rustup .cargo .sdkman .jenv go .goenv miniconda3 anaconda3
miniforge3 .juliaup .ghcup .opam .linuxbrew .dotnet .local/bin .local/lib .local/share/uv .local/share/pipx
.local/share/mise .local/share/pnpm
""")
"""Folders of programs below a home folder, which are visible although the home folder is not."""

_SYSTEM_FOLDERS = _split_names("""
/usr /bin /sbin /lib /lib32 /lib64 /etc/alternatives /etc/ssl/certs /opt /nix /snap /etc/passwd /etc/group
/etc/nsswitch.conf /etc/hosts /etc/resolv.conf /etc/localtime /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d
/etc/os-release /etc/mime.types /etc/gitconfig /etc/services /etc/protocols /etc/java /etc/fonts /etc/terminfo
/etc/inputrc /etc/debian_version /sys /proc
""")
"""System folders that programs need, for sandboxes that cannot hide files and therefore deny access to all others."""

_LIBRARY_FOLDERS = ("/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib")
_LIBRARIES = _split_names("""
libc libm libdl libpthread librt libutil libgcc_s libstdc++ libz libbz2 liblzma libzstd libcrypto libssl libsqlite3
libffi libexpat libuuid libmpdec libb2
""")
"""The shared libraries that the computing modules of the standard library are linked to."""

_MAX_SONAME_VERSION = 4  # characters of a version: programs request shorter names, which link to longer ones
_TIME_ZONES = ("/usr/share/zoneinfo", "/etc/localtime")
SCRATCH = "/tmp"  # private to the sandbox
_SHARED_MEMORY = "/dev/shm"  # private to the sandbox
_OTHER_SCRATCH, _OTHER_SCRATCH_SHARE = ("/var/tmp", _SHARED_MEMORY), 4  # empty in the sandbox
_MIN_SIZE = "65536"

Mount = tuple[str, str, str]
"""A part of a root: its kind (ro, rw, tmpfs, proc, dev, cover, seal), its path, and its source, its size, or the
description of its cover."""

Rule = tuple[str, str]
"""An access right (read, run, write, all), and the path below which it applies."""

_BUBBLEWRAP: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "ro": lambda path, source: ("--ro-bind", source, path),
    "rw": lambda path, source: ("--bind", source, path),
    "tmpfs": lambda path, size: ("--size", size, "--tmpfs", path),
    "proc": lambda path, _: ("--proc", path),
    "dev": lambda path, _: ("--dev", path),
    "seal": lambda path, _: ("--remount-ro", path),
    "link": lambda path, target: ("--symlink", target, path),
}


@dataclass(frozen=True, slots=True)
class MountPlan:
    """The mounts of a program's root, in order, and its access rules.

    `bare_rules` apply without a private root.
    """

    mounts: tuple[Mount, ...]
    rules: tuple[Rule, ...]
    bare_rules: tuple[Rule, ...]

    def texts(self) -> dict[str, str]:
        """The plan as texts of a worker's setup frame."""
        lists = {"mounts": self.mounts, "rules": self.rules, "bare_rules": self.bare_rules}
        return {name: "\0".join(word for entry in entries for word in entry) for name, entries in lists.items()}

    def bubblewrap_arguments(self, covers: str) -> list[str]:
        """The mounts as arguments of bubblewrap; the covers are created in the empty folder `covers`."""
        words: list[str] = []
        for number, (kind, path, source) in enumerate(self.mounts):
            if kind == "cover":
                make_cover(f"{covers}/{number}", source)
                words += _BUBBLEWRAP["ro"](path, f"{covers}/{number}")
            else:
                words += _BUBBLEWRAP[kind](path, source)
        return words


def command_mounts(
    folder: str,
    scratch: str,
    *,
    writable: bool,
    scratch_bytes: int,
    found: Survey = NOTHING_FOUND,
    hidden: Iterable[str] = (),
) -> MountPlan:
    """The mounts of a command: the system, read-only except `folder`, without home folders, secrets and temporary data.

    `found` contains the paths that are hidden or locked; `hidden` are further files and folders that appear empty.
    `scratch` is an empty folder of the host, for sandboxes without mounts. Raises SandboxError if `folder` does not
    exist or is the root folder.
    """
    place = os.path.realpath(folder)
    if not os.path.isdir(place) or place == "/":
        raise SandboxError(
            f"{folder!r} cannot be the workspace of a command: it must be a folder other than the root of the file "
            "system."
        )
    environment = settings.environment()
    homes = home_folders()
    # The folders below home folders that contain programs, and those that the programs need
    searched = environment.get("PATH", "")
    own = [f"{home}/{name}" for home in (*homes, *_children("/home")) for name in _TOOLCHAINS]
    prefixes = [_installation_prefix(path, homes) for path in searched.split(os.pathsep) if path]
    wanted = _real_folders([*own, *prefixes, sys.prefix, sys.base_prefix])
    below = [path for path in wanted if any(path.startswith(home + "/") for home in homes)]
    tools = [path for path in below if not any(path.startswith(other + "/") for other in below)]
    empty = (*_real_folders(_EMPTY_FOLDERS), _SHARED_MEMORY, *homes)
    mounts = _system_mounts(place, tools, empty, scratch_bytes)
    mounts += [("rw" if writable else "ro", place, place)]
    mounts += _locked_mounts(place, found) if writable else []
    mounts += _covers(place, found, empty)
    mounts += [part for path in _existing_outside(place, hidden) for part in _empty_mounts(path)]
    may = "all" if writable else "run"
    devices = ("all", "/dev")
    return MountPlan(
        tuple(mounts),
        (("run", "/"), (may, place), ("all", SCRATCH), ("all", "/var/tmp"), devices),
        (*(("run", path) for path in (*_SYSTEM_FOLDERS, *tools)), (may, place), ("all", scratch), devices),
    )


def _system_mounts(place: str, tools: list[str], empty: Iterable[str], scratch_bytes: int) -> list[Mount]:
    """The system around a workspace: read-only, without secrets, and with private folders to write to."""
    sizes = {SCRATCH: scratch_bytes, **dict.fromkeys(_OTHER_SCRATCH, max(1, scratch_bytes // _OTHER_SCRATCH_SHARE))}
    mounts: list[Mount] = [("ro", "/", "/"), ("dev", "/dev", _MIN_SIZE), ("proc", "/proc", "")]
    mounts += [("tmpfs", path, str(sizes.get(path, _MIN_SIZE))) for path in empty]
    mounts += [("seal", "/dev", ""), ("seal", "/proc", "")]  # root may write the kernel's settings below /proc
    mounts += [("ro", path, path) for path in (*tools, *_existing_paths("/", ["etc/resolv.conf"]))]
    unseen = [*_existing_paths("/", HIDDEN_PLACES), *_tool_secrets(tools)]
    mounts += [part for path in unseen if not f"{place}/".startswith(f"{path}/") for part in _empty_mounts(path)]
    return mounts


def python_mounts(packages: Iterable[str], *, scratch_bytes: int) -> MountPlan:
    """The mounts of a Python worker: the standard library, its shared libraries, these packages, and a scratch folder.

    The scratch folder is mounted first, because some of the others can be below it.
    """
    library = os.path.dirname(os.path.realpath(os.__file__))
    sources = [library, *_shared_libraries(os.path.dirname(library)), *filter(os.path.exists, _TIME_ZONES)]
    sites = [f"{library}/{name}" for name in ("site-packages", "dist-packages") if os.path.isdir(f"{library}/{name}")]
    folders = [os.path.realpath(path) for path in packages]
    size = str(scratch_bytes)
    mounts: list[Mount] = [("tmpfs", "/", "1m"), ("tmpfs", SCRATCH, size)]
    mounts += [("ro", path, os.path.realpath(path)) for path in sources]
    mounts += [("tmpfs", path, "1m") for path in sites]
    mounts += [("ro", path, path) for path in folders]
    mounts += [("seal", path, "") for path in sites]
    mounts += [("seal", "/", "")]
    rules = tuple(("read", path) for path in (*sources, *folders))
    return MountPlan(tuple(mounts), (*rules, ("write", SCRATCH)), rules)


def _shared_libraries(library_folder: str) -> list[str]:
    """The files of the shared libraries that Python needs, in the folders that the loader searches."""
    machine = getattr(sys.implementation, "_multiarch", "")
    folders = dict.fromkeys(
        f"{folder}/{name}" for folder in (*_LIBRARY_FOLDERS, library_folder) for name in (machine, "")
    )
    existing = [folder.rstrip("/") for folder in folders if os.path.isdir(folder)]
    real_folders = {os.path.realpath(folder): folder for folder in reversed(existing)}
    return [path for folder in real_folders.values() for path in _folder_libraries(folder)]


def _folder_libraries(folder: str) -> list[str]:
    """The libraries in a folder, by the names that programs request, such as libz.so.1."""
    parts = {name: name.partition(".so.") for name in sorted(os.listdir(folder))}
    requested = [
        name
        for name, (base, _, version) in parts.items()
        if base in _LIBRARIES and 0 < len(version) < _MAX_SONAME_VERSION
    ]
    return [f"{folder}/{name}" for name in requested if os.path.isfile(f"{folder}/{name}")]


def home_folders() -> list[str]:
    """The home folders, which are hidden from commands."""
    candidates = [*_HOMES, settings.environment().get("HOME", "")]
    with contextlib.suppress(KeyError, ImportError):  # a user may have no entry, and Windows has no such module
        import pwd

        candidates.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = _real_folders(path for path in candidates if path in _HOMES or len(Path(path).parts) > 2)
    return [path for path in real if not any(path.startswith(other + "/") for other in real)]


def _real_folders(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.isdir(path)))


def _children(folder: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _installation_prefix(path: str, homes: list[str]) -> str:
    """The installation that programs in `path` belong to, or `path` itself if that would be a home or shared folder."""
    parent, name = os.path.split(path)
    is_own = name in ("bin", "sbin", "shims") and os.path.basename(parent) != ".local" and parent not in homes
    return parent if is_own else path


def _existing_paths(folder: str, names: Iterable[str]) -> list[str]:
    paths = (os.path.join(folder, name) for name in names)
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _tool_secrets(tools: Iterable[str]) -> Iterator[str]:
    """Yield the secrets in folders of programs that are visible although they are below a home folder."""
    for folder in tools:
        name = os.path.basename(folder)
        if secret(f"~/{name}"):
            yield folder
            continue
        with contextlib.suppress(OSError):
            yield from (f"{folder}/{each}" for each in os.listdir(folder) if secret(f"~/{name}/{each}"))


def _locked_mounts(folder: str, found: Survey) -> list[Mount]:
    """Read-only mounts in a workspace; its repository is mounted too, so that it cannot be moved."""
    repository = f"{folder}/.git"
    mounts: list[Mount] = []
    if os.path.lexists(repository) and not os.path.islink(repository):  # the target of a link is not shown
        mounts.append(("rw" if os.path.isdir(repository) else "ro", repository, repository))
    locked = [path for path in found.locked if path not in found.hidden]
    real = [os.path.realpath(path) if os.path.islink(path) else path for path in locked]
    shown = tuple(f"{each}/" for each in (folder, *found.around))
    inside = [path for path in dict.fromkeys(real) if path.startswith(shown) and os.path.exists(path)]
    return mounts + [("ro", path, path) for path in sorted(inside, key=lambda path: path.count("/"))]


def _covers(folder: str, found: Survey, empty: Iterable[str]) -> list[Mount]:
    """The covers of hidden files and of folders that cannot be searched, the innermost first."""
    covers: list[Mount] = []
    roots = tuple(f"{each}/" for each in (folder, *found.around))
    empty_folders = tuple(f"{each}/" for each in empty)
    for path in sorted(found.hidden, key=lambda path: path.count("/"), reverse=True):
        if not path.startswith(roots) and path.startswith(empty_folders):
            continue  # the target of a link out of the workspace; it is not visible
        status = found.hidden[path]
        if stat.S_ISDIR(status.st_mode):
            covers += [("tmpfs", path, _MIN_SIZE), ("seal", path, "")]
        else:
            covers.append(("cover", path, cover_description(status)))
    return covers


def _existing_outside(folder: str, paths: Iterable[str]) -> list[str]:
    """The existing paths, innermost first, except those that contain the folder itself."""
    inner_first = sorted(_existing_paths("/", paths), key=lambda path: path.count("/"), reverse=True)
    return [path for path in inner_first if not f"{folder}/".startswith(path.rstrip("/") + "/")]


def _empty_mounts(path: str) -> list[Mount]:
    if os.path.isdir(path):
        return [("tmpfs", path, _MIN_SIZE), ("seal", path, "")]
    return [("cover", path, cover_description(os.lstat(path)))]


_SQLITE_WORD = re.compile(r"[^\s'\"|&;<>()=$`,]+")
_HEADER, _MODE, _WAL = b"SQLite format 3\0", slice(18, 20), b"\2\2"
_MAX_WORDS, _MAX_ENTRIES, _MAX_FOLDERS = 500, 300, 5


def with_databases(view: MountPlan, command: str, folder: str, scratch_bytes: int) -> MountPlan:
    """Let a command in a read-only workspace open the SQLite databases that it names.

    SQLite creates files to open some databases, so their folders are replaced by writable ones in memory. Folders with
    more than 300 entries are left out; opening a database in them fails.
    """
    arguments = list(dict.fromkeys(_SQLITE_WORD.findall(command)))[:_MAX_WORDS]
    found: dict[str, None] = {}
    for path in _named_files(arguments, folder):
        parent = os.path.dirname(path)
        has_both = os.path.exists(f"{path}-wal") and os.path.exists(f"{path}-shm")
        if parent not in found and not has_both and _is_in_wal_mode(path) and len(os.listdir(parent)) <= _MAX_ENTRIES:
            found[parent] = None
    folders = [*found][:_MAX_FOLDERS]
    at = view.mounts.index(("ro", folder, folder)) + 1
    more = [mount for each in sorted(folders) for mount in database_mounts(each, scratch_bytes)]
    rules = tuple(("all", each) for each in folders)
    return replace(view, mounts=(*view.mounts[:at], *more, *view.mounts[at:]), rules=(*view.rules, *rules))


def _named_files(arguments: list[str], folder: str) -> Iterator[str]:
    """Yield the real paths of files in the workspace named by these words, also relative to folders named by them."""
    bases = [folder, *(path for word in arguments if os.path.isdir(path := os.path.join(folder, word)))]
    for base in bases[:_MAX_FOLDERS]:
        for word in arguments:
            path = os.path.realpath(os.path.join(base, word.removeprefix("file:").partition("?")[0]))
            if path.startswith(f"{folder}/") and os.path.isfile(path):
                yield path


def _is_in_wal_mode(path: str) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        start = file.read(_MODE.stop)
        return start.startswith(_HEADER) and start[_MODE] == _WAL
    return False


def database_mounts(folder: str, size: int) -> list[Mount]:
    """Mounts that replace a folder by one in memory that contains all of its entries read-only."""
    mounts: list[Mount] = [("tmpfs", folder, str(size))]
    with os.scandir(folder) as scan:
        for entry in sorted(scan, key=lambda each: each.name):
            if entry.is_symlink():
                mounts.append(("link", entry.path, os.readlink(entry.path)))
            elif entry.is_file() or entry.is_dir():
                mounts.append(("ro", entry.path, entry.path))
    return mounts

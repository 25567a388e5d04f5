"""The file system that a sandboxed program sees."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agentkit import settings
from agentkit._dataclass import dataclass
from agentkit.errors import SandboxError
from agentkit.safety.paths import HIDDEN_PLACES, secret
from agentkit.sandbox.protocol import cover_description, make_cover
from agentkit.sandbox.secret_search import NOTHING_FOUND, Survey


def _names(table: str) -> tuple[str, ...]:
    return tuple(table.split())


_EMPTIED = ("/tmp", "/var/tmp", "/run", "/var/run")  # they are given empty, not used
"""Folders in which other programs keep files and sockets."""

_HOMES = ("/root", "/home")
_TOOLCHAINS = _names("""
.pyenv .rbenv .nvm .nodenv .asdf .volta .bun .deno .rustup .cargo .sdkman .jenv go .goenv miniconda3 anaconda3
miniforge3 .juliaup .ghcup .opam .linuxbrew .dotnet .local/bin .local/lib .local/share/uv .local/share/pipx
.local/share/mise .local/share/pnpm
""")
"""Folders of programs below a home, which are visible although the home is not."""

_SYSTEM_FOLDERS = _names("""
/usr /bin /sbin /lib /lib32 /lib64 /etc/alternatives /etc/ssl/certs /opt /nix /snap /etc/passwd /etc/group
/etc/nsswitch.conf /etc/hosts /etc/resolv.conf /etc/localtime /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d
/etc/os-release /etc/mime.types /etc/gitconfig /etc/services /etc/protocols /etc/java /etc/fonts /etc/terminfo
/etc/inputrc /etc/debian_version /sys /proc
""")
"""System folders that programs need, for sandboxes that cannot hide files and refuse everything else."""

_LIBRARY_FOLDERS = ("/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib")
_LIBRARIES = _names("""
libc libm libdl libpthread librt libutil libgcc_s libstdc++ libz libbz2 liblzma libzstd libcrypto libssl libsqlite3
libffi libexpat libuuid libmpdec libb2
""")
"""The shared libraries that the standard library's modules are linked to, as far as they compute."""

_LONG = 4  # characters of a version: programs request shorter names, which link to longer ones
_TIME_ZONES = ("/usr/share/zoneinfo", "/etc/localtime")
SCRATCH = "/tmp"  # a folder of the sandbox, empty and its own
_SHARED_MEMORY = "/dev/shm"  # the sandbox's own
_SIDE_SCRATCHES, _SIDE_SHARE = ("/var/tmp", _SHARED_MEMORY), 4  # they are given empty, not used
_NEXT_TO_NOTHING = "65536"

Mount = tuple[str, str, str]
"""A part of a root: its kind (ro, rw, tmpfs, proc, dev, cover, seal), its path, and its source, its size, or the
description of its cover."""

Rule = tuple[str, str]
"""A word for what may be done (read, run, write, all), and the path below which it may."""

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
    """The parts of a program's root, in order, and what it may open below which path.

    `bare_rules` apply if it cannot have a private root.
    """

    mounts: tuple[Mount, ...]
    rules: tuple[Rule, ...]
    bare_rules: tuple[Rule, ...]

    def texts(self) -> dict[str, str]:
        """The view as a worker takes it."""
        lists = {"mounts": self.mounts, "rules": self.rules, "bare_rules": self.bare_rules}
        return {name: "\0".join(word for entry in entries for word in entry) for name, entries in lists.items()}

    def bubblewrap_arguments(self, covers: str) -> list[str]:
        """The mounts as bubblewrap's command line says them; the covers are created in the empty folder `covers`."""
        words: list[str] = []
        for number, (kind, path, source) in enumerate(self.mounts):
            if kind == "cover":
                make_cover(f"{covers}/{number}", source)
                words += _BUBBLEWRAP["ro"](path, f"{covers}/{number}")
            else:
                words += _BUBBLEWRAP[kind](path, source)
        return words


def command_view(
    folder: str,
    scratch: str,
    *,
    writable: bool,
    scratch_bytes: int,
    found: Survey = NOTHING_FOUND,
    hidden: Iterable[str] = (),
) -> MountPlan:
    """The whole system read-only but for `folder`, without homes, secrets and what others keep for a while.

    `found` are the paths that are hidden or locked, `hidden` further files and folders that are shown
    empty. `scratch` is an empty folder of the host for where nothing can be mounted. Raises SandboxError when
    `folder` does not exist or is the root folder.
    """
    place = os.path.realpath(folder)
    if not os.path.isdir(place) or place == "/":
        raise SandboxError(
            f"{folder!r} cannot be the workspace of a command: it must be a folder other than the root of the file "
            "system."
        )
    environment = settings.environment()
    homes = people_homes()
    # The folders below the homes from which programs are started, and what those programs need
    searched = environment.get("PATH", "")
    own = [f"{home}/{name}" for home in (*homes, *_children("/home")) for name in _TOOLCHAINS]
    prefixes = [_prefix(path, homes) for path in searched.split(os.pathsep) if path]
    wanted = _real_folders([*own, *prefixes, sys.prefix, sys.base_prefix])
    below = [path for path in wanted if any(path.startswith(home + "/") for home in homes)]
    tools = [path for path in below if not any(path.startswith(other + "/") for other in below)]
    emptied = (*_real_folders(_EMPTIED), _SHARED_MEMORY, *homes)
    mounts = _system(place, tools, emptied, scratch_bytes)
    mounts += [("rw" if writable else "ro", place, place)]
    mounts += _locked(place, found) if writable else []
    mounts += _covers(place, found, emptied)
    mounts += [part for path in _around(place, hidden) for part in _hidden(path)]
    may = "all" if writable else "run"
    devices = ("all", "/dev")
    return MountPlan(
        tuple(mounts),
        (("run", "/"), (may, place), ("all", SCRATCH), ("all", "/var/tmp"), devices),
        (*(("run", path) for path in (*_SYSTEM_FOLDERS, *tools)), (may, place), ("all", scratch), devices),
    )


def _system(place: str, tools: list[str], emptied: Iterable[str], scratch_bytes: int) -> list[Mount]:
    """The system around a workspace: read-only, without secrets, and with private folders to write to."""
    sizes = {SCRATCH: scratch_bytes, **dict.fromkeys(_SIDE_SCRATCHES, max(1, scratch_bytes // _SIDE_SHARE))}
    mounts: list[Mount] = [("ro", "/", "/"), ("dev", "/dev", _NEXT_TO_NOTHING), ("proc", "/proc", "")]
    mounts += [("tmpfs", path, str(sizes.get(path, _NEXT_TO_NOTHING))) for path in emptied]
    mounts += [("seal", "/dev", ""), ("seal", "/proc", "")]  # root may write the kernel's settings below /proc
    mounts += [("ro", path, path) for path in (*tools, *_existing("/", ["etc/resolv.conf"]))]
    unseen = [*_existing("/", HIDDEN_PLACES), *_secrets_of_tools(tools)]
    mounts += [part for path in unseen if not f"{place}/".startswith(f"{path}/") for part in _hidden(path)]
    return mounts


def python_view(packages: Iterable[str], *, scratch_bytes: int) -> MountPlan:
    """The standard library and the shared ones it computes with, these packages, and a folder to write to.

    The folder comes first and is empty but for what of the others lies below it.
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


def _shared_libraries(beside: str) -> list[str]:
    """The files of the shared libraries that Python needs, in the folders in which they are looked for."""
    machine = getattr(sys.implementation, "_multiarch", "")
    folders = dict.fromkeys(f"{folder}/{name}" for folder in (*_LIBRARY_FOLDERS, beside) for name in (machine, ""))
    own = [folder.rstrip("/") for folder in folders if os.path.isdir(folder)]
    real = {os.path.realpath(folder): folder for folder in reversed(own)}
    return [path for folder in real.values() for path in _libraries_in(folder)]


def _libraries_in(folder: str) -> list[str]:
    """The libraries of a folder, by the names that programs request, such as libz.so.1."""
    parts = {name: name.partition(".so.") for name in sorted(os.listdir(folder))}
    asked = [name for name, (base, _, version) in parts.items() if base in _LIBRARIES and 0 < len(version) < _LONG]
    return [f"{folder}/{name}" for name in asked if os.path.isfile(f"{folder}/{name}")]


def people_homes() -> list[str]:
    """The home folders that a command does not see."""
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


def _prefix(path: str, homes: list[str]) -> str:
    """The folder that a program in `path` belongs to, unless that is a home or a folder of everything."""
    parent, name = os.path.split(path)
    is_own = name in ("bin", "sbin", "shims") and os.path.basename(parent) != ".local" and parent not in homes
    return parent if is_own else path


def _existing(folder: str, names: Iterable[str]) -> list[str]:
    paths = (os.path.join(folder, name) for name in names)
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def _secrets_of_tools(tools: Iterable[str]) -> Iterator[str]:
    """The secrets in folders of programs that are shown although they lie below a home."""
    for folder in tools:
        name = os.path.basename(folder)
        if secret(f"~/{name}"):
            yield folder
            continue
        with contextlib.suppress(OSError):
            yield from (f"{folder}/{each}" for each in os.listdir(folder) if secret(f"~/{name}/{each}"))


def _locked(folder: str, found: Survey) -> list[Mount]:
    """Read-only mounts of a workspace; its repository is mounted as well, so that it cannot be moved."""
    repository = f"{folder}/.git"
    held: list[Mount] = []
    if os.path.lexists(repository) and not os.path.islink(repository):  # what a link leads to is not shown
        held.append(("rw" if os.path.isdir(repository) else "ro", repository, repository))
    kept = [path for path in found.locked if path not in found.hidden]
    real = [os.path.realpath(path) if os.path.islink(path) else path for path in kept]
    shown = tuple(f"{each}/" for each in (folder, *found.around))
    inside = [path for path in dict.fromkeys(real) if path.startswith(shown) and os.path.exists(path)]
    return held + [("ro", path, path) for path in sorted(inside, key=lambda path: path.count("/"))]


def _covers(folder: str, found: Survey, emptied: Iterable[str]) -> list[Mount]:
    """The covers of hidden files and of folders that cannot be searched, the innermost first."""
    covers: list[Mount] = []
    shown = tuple(f"{each}/" for each in (folder, *found.around))
    unseen = tuple(f"{each}/" for each in emptied)
    for path in sorted(found.hidden, key=lambda path: path.count("/"), reverse=True):
        if not path.startswith(shown) and path.startswith(unseen):
            continue  # a link leads to it, out of the workspace and to where nothing is shown
        status = found.hidden[path]
        if stat.S_ISDIR(status.st_mode):
            covers += [("tmpfs", path, _NEXT_TO_NOTHING), ("seal", path, "")]
        else:
            covers.append(("cover", path, cover_description(status)))
    return covers


def _around(folder: str, paths: Iterable[str]) -> list[str]:
    """The paths that are there, the innermost first, but for those that hold the folder itself."""
    inner_first = sorted(_existing("/", paths), key=lambda path: path.count("/"), reverse=True)
    return [path for path in inner_first if not f"{folder}/".startswith(path.rstrip("/") + "/")]


def _hidden(path: str) -> list[Mount]:
    if os.path.isdir(path):
        return [("tmpfs", path, _NEXT_TO_NOTHING), ("seal", path, "")]
    return [("cover", path, cover_description(os.lstat(path)))]

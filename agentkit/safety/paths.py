"""Secret and protected paths.

Every part of agentkit that treats some files differently from others (the sandbox, the file tools, the judge of shell
commands, the documentation) takes the kinds of paths from `GROUPS`. Nothing here touches the file system.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import NamedTuple

_HOME = re.compile(r"^(?:~[\w.-]*|\$home\b|\$\{home\})(?=/|$)")
_PROC_LINK = re.compile(r"^/proc/(?:self|thread-self|\d+)/(?:task/\d+/)?(?:root|cwd)(?=/|$)")
_UNTOLD = re.compile(r"[$`\x00]")

_TEMPLATE = r"([^/]*[._-])?(example|sample|template|dist|defaults?)$"

# Case-folded names, matched from the slash on to the end of the path.
_SECRET: tuple[tuple[str, str], ...] = (
    ("SSH keys", r"/\.ssh(/.*)?"),
    ("an SSH key", r"/id_(rsa|dsa|ecdsa|ed25519|xmss)(_sk)?(?!.*\.pub$)([._-][^/]*)?"),
    ("an SSH key", r"/etc/ssh/ssh_host_[^/]*_key"),
    (
        "an environment file with keys",
        r"/([^/]+\.env(\.(?!" + _TEMPLATE + r")[^/]*)?|\.env([._-](?!" + _TEMPLATE + r")[^/]*)?)",
    ),
    ("an environment file with keys", r"/\.dev\.vars(\.(?!" + _TEMPLATE + r")[^/]*)?"),
    ("an environment file with keys", r"/\.envrc"),
    ("a password file", r"/([._]netrc|\.pgpass|\.my\.cnf|\.mylogin\.cnf|\.htpasswd|\.authinfo(\.gpg)?)"),
    ("a password file", r"/passwords?\.(txt|csv|json|ya?ml|xlsx?|md)"),
    ("a registry token", r"/(\.npmrc|\.pypirc|\.yarnrc\.yml|\.gem/credentials|\.cargo/credentials(\.toml)?)"),
    ("a registry token", r"/(\.composer/auth\.json|\.m2/settings(-security)?\.xml|\.nuget/nuget\.config)"),
    ("a registry token", r"/(\.docker/config\.json|\.dockercfg|\.config/containers/auth\.json)"),
    ("a source hosting token", r"/(\.git-credentials|\.config/(git/credentials|hub|gh(/.*)?|glab-cli(/.*)?))"),
    ("cloud credentials", r"/(\.aws|\.azure|\.gcloud|\.config/(gcloud|doctl|op|rclone)|\.oci|\.bluemix)(/.*)?"),
    ("cloud credentials", r"/(\.s3cfg|\.boto|\.vault-token|\.terraformrc|\.databrickscfg|[^/]+\.tfstate(\.backup)?)"),
    ("cloud credentials", r"/([^/]+\.)?tfvars(\.json)?"),
    ("cloud credentials", r"/(\.terraform\.d/credentials\.tfrc\.json|\.snowsql/config|\.kaggle/kaggle\.json)"),
    ("a model provider's token", r"/(\.openai|\.anthropic|\.(cache/)?huggingface/(token|stored_tokens))"),
    ("a model provider's token", r"/(\.claude/\.credentials|\.codex/auth)\.json"),
    ("cluster credentials", r"/(\.kube(/config)?|etc/kubernetes/(pki(/.*)?|[^/]+\.conf)|kubeconfig)"),
    ("service credentials", r"/run/secrets(/.*)?"),
    (
        "service credentials",
        r"/\.?(vault|ansible[-_]?vault)[-_.]?(pass(word|wd)?|token|keys?|secrets?|init|unseal([-_]?keys?)?)"
        r"(\.(txt|json|ya?ml|toml|hcl|ini))?",
    ),
    ("service credentials", r"/\.streamlit/[^/]*(secret|credential)[^/]*\.toml"),
    ("cloud credentials", r"/rclone\.conf"),
    ("encryption keys", r"/(\.gnupg|\.password-store|\.local/share/keyrings|library/keychains|\.age)(/.*)?"),
    ("encryption keys", r"/(secring(\.[^/]*)?|[^/.]*(private|secret|privkey|priv[-_])[^/.]*\.(asc|gpg|pgp|kbx))"),
    (
        "encryption keys",
        r"/([^/]*\.keychain(-db)?|wallet\.dat|\.electrum(/.*)?|\.bitcoin(/.*)?|\.ethereum/keystore(/.*)?)",
    ),
    ("encryption keys", r"/\.(config/(sops|age)|local/share/kwalletd)(/.*)?"),
    ("service credentials", r"/(\.config/(heroku|stripe|configstore)|\.huggingface)(/.*)?"),
    ("service credentials", r"/\.gradle/gradle\.properties"),
    ("an agent's history", r"/\.(claude|codex|gemini)/(projects|sessions|todos|tmp|history[^/]*)(/.*)?"),
    ("system passwords", r"/etc/(shadow|gshadow|sudoers|master\.passwd|security/opasswd)([-.~][^/]*)?"),
    ("system passwords", r"/etc/(sudoers\.d|wireguard|openvpn|networkmanager/system-connections)(/.*)?"),
    ("system keys", r"/etc/(ssl/private|letsencrypt(/(live|archive|keys|accounts))?|pki/tls/private)(/.*)?"),
    ("system keys", r"/(tmp/krb5cc_[^/]*|var/lib/(sss|samba)/(secrets|private)(/.*)?)"),
    ("another process's environment or memory", r"/proc/[^/]+/(task/[^/]+/)?(environ|mem|auxv|pagemap)"),
    ("the machine's memory", r"/(proc/kcore|dev/(mem|kmem|port|core))"),
    (
        "a browser profile",
        r"/(\.mozilla|\.thunderbird|\.config/(google-chrome|chromium|bravesoftware|microsoft-edge))(/.*)?",
    ),
    ("a browser profile", r"/library/(application support/(google/chrome|firefox)|cookies)(/.*)?"),
    ("a browser profile", r"/(logins\.json|key[34]\.db|cookies(\.sqlite)?|login data|web data)"),
    ("a command history", r"/(\.[a-z_-]*_history|\.histfile|\.zhistory|\.lesshst|\.viminfo|fish_history)"),
    ("private mail or messages", r"/(var/(spool/)?mail|maildir|library/(mail|messages))(/.*)?"),
    ("a login cookie", r"/\.(xauthority|iceauthority|esd_auth)"),
)

# The same, but packages bring public certificates and code under such names, which their programs must read.
_SECRET_UNLESS_PACKAGED: tuple[tuple[str, str], ...] = (
    ("a key or certificate file", r"/[^/]*\.(pem|key|p8|p12|pfx|pkcs12|kdbx?|jks|keystore|ppk|keytab|ovpn|agekey)"),
    ("service credentials", r"/(client_secrets?|service[-_]?account|application_default_credentials)[^/]*\.json"),
    ("service credentials", r"/\.?(aws_|gcp_|google_)?credentials(\.(json|ya?ml|ini|csv|toml|txt|xml))?"),
    ("service credentials", r"/\.?secrets?(\.(json|ya?ml|ini|toml|txt|enc))?"),
    (
        "service credentials",
        r"/(\.tokens?|\.?(access_?|api_?|auth_?)tokens?(\.(json|txt))?|token\.json|accesskeys?\.csv)",
    ),
)

# Parts of repositories that git changes all the time, and nobody else should.
_REPOSITORY: tuple[tuple[str, str], ...] = (
    ("git runs hooks and settings from it", r"/\.git(/.*)?"),
    ("git takes a folder that has one for a repository, and runs what its settings name", r"/head"),
)

_PYTHON_STARTUP: tuple[tuple[str, str], ...] = (
    ("every Python runs it when it starts", r"/[^/]+\._?pth"),
    (
        "every Python runs it when it starts",
        r"/(sitecustomize|usercustomize)((/.*)?|(\.[^/]*)?\.(py[cdo]?|so|dll|dylib))",
    ),
)

_OF_AGENTS: tuple[tuple[str, str], ...] = (
    (
        "agents follow it",
        r"/((agents|claude|gemini)(\.local|\.override)?\.md|\.(agents|claude|cursor|gemini)(/.*)?|\.(cursor|windsurf)rules"
        r"|\.github/copilot-instructions\.md)",
    ),
)

_OWN_SETTINGS: tuple[tuple[str, str], ...] = (("it sets what agents may do", r"/(agentkit\.toml|\.agentkit(/.*)?)"),)

_SETTINGS: tuple[tuple[str, str], ...] = (
    (
        "git runs hooks and settings from it",
        r"/\.git/(modules/(?!(.*/)?(refs|logs)/)(.+/)?)?(hooks(/.*)?|config(\.worktree)?|commondir|info/attributes)",
    ),
    ("git runs hooks and settings from it", r"/\.git/worktrees/[^/]+/(config\.worktree|commondir)"),
    ("git fetches what it names", r"/\.gitmodules"),
    ("git reads commands from it", r"/(\.gitconfig|\.config/git(/.*)?)"),
    (
        "version control runs commands from it",
        r"/(\.hg/(hgrc|hgrc-not-shared|sharedpath)|\.hgrc|\.config/(hg|jj|sapling)(/.*)?|\.sl/config|\.pijul/config)",
    ),
    (
        "version control runs commands from it",
        r"/(\.jj/(repo/(config\.toml|workspace-config\.toml)|workspace-config\.toml)"
        r"|\.jjconfig\.toml|\.bzr/branch/branch\.conf|\.bazaar(/.*)?|_darcs/prefs(/.*)?)",
    ),
    (
        "it sets what agents may do",
        r"/(\.?mcp\.json|mcp_config\.json|claude_desktop_config\.json|\.aider\.conf\.ya?ml|\.continuerc\.json"
        r"|\.?(opencode|crush)\.jsonc?)",
    ),
    (
        "it sets what agents may do",
        r"/\.(claude|codex|cursor|gemini|windsurf|continue|roo|kiro|opencode|trae|cline|kilocode|amp|augment|qwen|crush"
        r"|goose|junie|factory|qoder|amazonq|openhands|codeium|iflow)(/.*)?",
    ),
    (
        "shells run it when they start",
        r"/\.(bash(rc|_profile|_login|_logout|_aliases|_completion)|profile|kshrc|mkshrc|yashrc|shrc|shinit|ashrc|t?cshrc"
        r"|login|logout|inputrc|xonshrc|elvish(/.*)?)",
    ),
    (
        "shells run it when they start",
        r"/\.(z(shrc|shenv|profile|login|logout)(\.local)?|oh-my-zsh/custom(/.*)?|autoenv(\.zsh)?|lessfilter"
        r"|config/(fish|zsh|nushell|elvish|xonsh|powershell)(/.*)?)",
    ),
    ("shells run it when they start", r"/((microsoft\.[^/]*_)?profile\.ps1|\.config/starship\.toml)"),
    (
        "sessions run it when they start",
        r"/\.(pam_environment|x(initrc|inputrc|profile|session(rc)?|serverrc)"
        r"|config/(autostart|systemd|environment\.d|plasma-workspace|hypr|sway|i3|bspwm|awesome|openbox)(/.*)?)",
    ),
    (
        "sessions run it when they start",
        r"/(\.i3(/.*)?|\.hammerspoon(/.*)?|\.local/share/applications(/.*)?|library/launch(agents|daemons)(/.*)?)",
    ),
    (
        "programs run it when they start",
        r"/([._]g?vimrc(\.local)?|\.(local\.|l)vimrc|\.vim(/.*)?|\.(ideavimrc|exrc|n?vimrc|kakrc|nanorc|spacemacs))",
    ),
    (
        "programs run it when they start",
        r"/\.(nvim(\.lua|/.*)?|emacs(\.d(/.*)?)?|doom\.d(/.*)?|dir-locals(-2)?\.el|helix(/.*)?|atom/init\.[^/]*"
        r"|config/(nvim|emacs|doom|helix|kak|micro)(/.*)?)",
    ),
    (
        "programs run it when they start",
        r"/\.(gdbinit|gdbearlyinit|lldbinit(-[^/]*)?|config/(gdb|kitty|alacritty|wezterm|ghostty|tmux|zellij)(/.*)?"
        r"|tmux\.conf(\.local)?|screenrc|wezterm\.lua)",
    ),
    (
        "programs run it when they start",
        r"/\.(envrc|direnvrc|config/direnv(/.*)?|pythonrc(\.py)?|pythonstartup|pdbrc(\.py)?|ipython(/.*)?|jupyter(/.*)?"
        r"|rprofile|renviron|irbrc|pryrc|byebugrc|psqlrc|sqliterc|duckdbrc|curlrc|wgetrc|ssh/rc)",
    ),
    (
        "programs run it when they start",
        r"/\.(ghci|haskeline|iex\.exs|erlang|octaverc|julia/config/startup\.jl|ocamlinit|sbclrc|guile|tclshrc|wishrc|perldb"
        r"|mongo(sh)?rc\.js|jshellrc|utoprc|phpactor\.json|lein/profiles\.clj|clojure/deps\.edn|config/(pip|bpython)(/.*)?)",
    ),
    (
        "programs run it when they start",
        r"/\.(forward|mailcap|procmailrc|muttrc|mutt(/.*)?|ansible\.cfg|pip/pip\.conf)",
    ),
    (
        "editors run commands from it",
        r"/(\.(vscode|idea|devcontainer|zed|fleet|run|vs|nova|theia|externaltoolbuilders)(/.*)?|\.devcontainer\.json"
        r"|[^/]+\.(code-workspace|sublime-project))",
    ),
    (
        "commits run commands from it",
        r"/(\.(husky|githooks|git-hooks)(/.*)?|\.pre-commit-config\.ya?ml|\.pre-commit-hooks\.ya?ml|prek\.toml"
        r"|\.?lefthook(-local)?\.(ya?ml|toml|json)|\.overcommit\.ya?ml|\.lintstagedrc(\.[^/]*)?"
        r"|\.simple-git-hooks\.(json|c?js)|captainhook\.json|grumphp\.ya?ml)",
    ),
    (
        "build servers run it with secrets",
        r"/(\.github/(workflows|actions)(/.*)?|\.(forgejo|gitea|circleci|woodpecker|buildkite|semaphore|teamcity|tekton"
        r"|harness|builds|jenkins|azure-pipelines|cloudbuild|zuul\.d)(/.*)?)",
    ),
    (
        "build servers run it with secrets",
        r"/(\.gitlab-ci\.ya?ml|\.gitlab/ci(/.*)?|jenkinsfile([._-][^/]*)?|\.?azure-pipelines\.ya?ml"
        r"|\.?bitbucket-pipelines\.ya?ml|\.cirrus\.(ya?ml|star)|\.build\.ya?ml|\.zuul\.ya?ml)",
    ),
    (
        "build servers run it with secrets",
        r"/\.?(travis|drone|appveyor|woodpecker|wercker|shippable|codemagic|bitrise|screwdriver|cloudbuild|buildspec"
        r"|scrutinizer|codeship-(services|steps))\.ya?ml",
    ),
    (
        "builds run programs that it names",
        r"/(\.cargo/config(\.toml)?|\.bazel(rc|iskrc)|tools/bazel|\.buckconfig(\.local|\.d(/.*)?)?|\.yarnrc(\.yml)?"
        r"|\.npmrc|\.pnpmfile\.c?js|bunfig\.toml|\.yarn/(plugins|releases)(/.*)?)",
    ),
    (
        "builds run programs that it names",
        r"/(\.mvn(/.*)?|\.mavenrc|\.gradle/(init\.gradle(\.kts)?|init\.d(/.*)?)|\.sbt(rc|opts)|\.jvmopts"
        r"|\.?(mise|rtx)(\.local)?\.toml|\.mise(/.*)?|\.config/mise(/.*)?|devbox\.json)",
    ),
)


class Group(NamedTuple):
    """Kinds of paths that are treated alike: rows of a reason and a pattern, which begins with a slash.

    `hidden`: a sandboxed command finds a file that it cannot read. `denied`: the file tools refuse it. `locked`: a
    command finds it read-only, and one that it creates is set aside. `asked`: a person is asked before a file tool
    or a command that names it writes it. `in_packages`: whether `hidden` and `locked` apply below `PACKAGE_FOLDERS`.
    """

    name: str
    rows: tuple[tuple[str, str], ...]
    hidden: bool = False
    denied: bool = False
    locked: bool = False
    asked: bool = False
    in_packages: bool = True


GROUPS = (
    Group("secrets", _SECRET, hidden=True, denied=True),
    Group("secrets by common names", _SECRET_UNLESS_PACKAGED, hidden=True, denied=True, in_packages=False),
    Group("settings of agentkit", _OWN_SETTINGS, locked=True, asked=True),
    Group("instructions of agents", _OF_AGENTS, locked=True, asked=True, in_packages=False),
    Group("startup files of Python", _PYTHON_STARTUP, locked=True, asked=True),
    Group("settings that other programs run", _SETTINGS, locked=True, asked=True, in_packages=False),
    Group("files of repositories", _REPOSITORY, asked=True),
)
"""The one table of paths that are not treated like others."""

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
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/docker",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/krb5.keytab",
    "/etc/NetworkManager/system-connections",
    "/etc/ppp",
    "/etc/security/opasswd",
    "/var/lib/kubelet",
    "/var/lib/docker",
    "/var/lib/cloud",
    "/var/lib/sss",
    "/var/spool",
    "/var/backups",
    "/var/log",
    "/var/mail",
    "/boot",
)
"""Places of the system that are hidden from commands as a whole."""


_ASIDE = re.compile(r"(?<=[^/])(?:~|\.~\d{1,9}~|\.(?:bak|old|orig|save|sav|sw[a-p])\d{0,9}){1,9}\Z")
"""Suffixes of copies made by editors and users; swap files and locks also begin with a dot."""

_IN_MARKS = re.compile(r"/(?:#([^/]+)#|\.#([^/]+))\Z")


_MAX_CHARS = 4_096
"""No system opens a longer path."""

_UNSEEN = re.compile("[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Characters that some file systems pass over in names, and nobody sees."""

_TRAILING = re.compile(r"(?<=[^/ .])[ .]+(?=/|\Z)")
"""Spaces and dots at the end of a name, which other systems drop and people do not see."""

_CAPTURING = re.compile(r"(?<!\\)\((?!\?)")


class _Table:
    """Rows of a reason and a pattern, which begins with a slash; asked whether first, which is quickest without groups.

    A pattern is made when it is first needed: to import this module would take four times as long otherwise.
    """

    def __init__(self, rows: tuple[tuple[str, str], ...]) -> None:
        self._rows = rows

    @cached_property
    def _whether(self) -> re.Pattern[str]:
        return _one_of(_CAPTURING.sub("(?:", pattern[1:]) for _, pattern in self._rows)

    @cached_property
    def _why(self) -> re.Pattern[str]:
        return _one_of(f"(?P<row{number}>{pattern[1:]})" for number, (_, pattern) in enumerate(self._rows))

    def reason(self, plain: str) -> str | None:
        """The reason why the path matches, or None."""
        if not self._whether.search(plain):
            return None
        found = self._why.search(plain)
        return self._rows[int((found.lastgroup or "").removeprefix("row"))][0] if found else None


def _one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"/(?:{'|'.join(patterns)})\Z", re.DOTALL)


def _table(chosen: Callable[[Group], bool]) -> _Table:
    return _Table(tuple(row for group in GROUPS if chosen(group) for row in group.rows))


_DENIED, _ASKED = _table(lambda group: group.denied), _table(lambda group: group.asked)
_HIDDEN = _table(lambda group: group.hidden), _table(lambda group: group.hidden and group.in_packages)
_LOCKED = _table(lambda group: group.locked), _table(lambda group: group.locked and group.in_packages)
_OWN = _Table(_OWN_SETTINGS)


def _plain(path: str) -> str:
    """The case-folded normal form from a slash on; a home's spelling is dropped, as are links through /proc."""
    spelled = path if path.isascii() else _UNSEEN.sub("", path)
    folded = _HOME.sub("/home/user", spelled.strip().casefold().removeprefix("file://"))
    plain = _TRAILING.sub("", re.sub("/+", "/", posixpath.normpath("/" + folded)))
    return re.sub("/+", "/", "/" + _PROC_LINK.sub("", plain))[-_MAX_CHARS:]


def _secret(path: str, table: _Table) -> str | None:
    plain = _plain(path)
    original = _ASIDE.sub("", _IN_MARKS.sub(r"/\1\2", plain) if "#" in plain else plain)
    reason = table.reason(original)
    if reason is None and original != plain:
        folder, _, name = original.rpartition("/")
        return table.reason(f"{folder}/{name.removeprefix('.')}")
    return reason


def secret(path: str) -> str | None:
    """The kind of secret in `path`, such as "SSH keys", or None; matches any spelling of the name, and copies."""
    return _secret(path, _DENIED)


def protected(path: str) -> str | None:
    """The reason why writing `path` needs approval: other programs run or obey it later. None if they do not."""
    return _ASKED.reason(_plain(path))


def hidden(path: str, *, packaged: bool = False) -> bool:
    """Whether a sandboxed command must not read `path`; `packaged` says that it lies in a folder of packages."""
    return _secret(path, _HIDDEN[packaged]) is not None


def locked(path: str, *, packaged: bool = False) -> bool:
    """Whether a sandboxed command must neither change nor create `path`."""
    return _LOCKED[packaged].reason(_plain(path)) is not None


def own_settings(path: str) -> bool:
    """Whether `path` sets what agents of this toolkit may do."""
    return _OWN.reason(_plain(path)) is not None


_UNUSUAL = re.compile(r"[^\x20-\x7e]|\A\.?#|[~ .]\Z|\.(bak|old|orig|save|sav|sw[a-p])\d*\Z", re.IGNORECASE)
"""Names that are to be read in more than one way."""


_BEGINNING = re.compile(
    r"/(\.|(etc|proc|dev|var|run|tmp|library|maildir|huggingface|sitecustomize|usercustomize|_darcs|tools)(/|\Z))"
)
"""Prefixes of all patterns with several path parts; below other folders only the last name matters."""


def candidates(folder: str, names: Sequence[str]) -> list[str]:
    """The names in a folder that may be hidden or locked: a fast superset."""
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
    hits = {match[0].rpartition("/")[2] for match in _any_line().finditer(text)}
    return found + [name for hit in hits for name in ordinary[hit]]


@cache
def _any_line() -> re.Pattern[str]:
    """Matches the lines of a text that are hidden or locked paths."""
    rows = [row for group in GROUPS if group.hidden or group.locked for row in group.rows]
    patterns = (_CAPTURING.sub("(?:", pattern[1:]).replace("[^/]", r"[^/\n]") for _, pattern in rows)
    return re.compile(rf"/(?:{'|'.join(patterns)})$", re.MULTILINE)


def resolve(path: str, folder: str, home: str | None = None) -> str | None:
    """The absolute normal form of `path` seen from the absolute `folder`; None when its text alone cannot tell.

    A leading ~ or $HOME is `home`; other variables, substitutions and homes of other users are not resolved.
    """
    for mark in ("${HOME}", "$HOME", "~"):
        if path == mark or path.startswith(mark + "/"):
            if home is None:
                return None
            path = home + path[len(mark) :]
            break
    if _UNTOLD.search(path) or path.startswith("~"):
        return None
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def inside(path: str, root: str) -> bool:
    """Whether the absolute `path` is `root` or beneath it, by their normal forms."""
    path, root = (posixpath.normpath(text).lstrip("/") for text in (path, root))
    return root in {"", "."} or path == root or path.startswith(root + "/")

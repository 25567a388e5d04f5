"""What does a path's name alone say: a secret, code that runs later, or inside a folder? (pure, lexical)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cached_property

_HOME = re.compile(r"^(?:~[\w.-]*|\$home\b|\$\{home\})(?=/|$)")
_PROC_LINK = re.compile(r"^/proc/(?:self|thread-self|\d+)/(?:task/\d+/)?(?:root|cwd)(?=/|$)")
_UNTOLD = re.compile(r"[$`\x00]")

_TEMPLATE = r"([^/]*[._-])?(example|sample|template|dist|defaults?)$"

# Case-folded names, matched from the slash on to the end of the path.
_SECRET: tuple[tuple[str, str], ...] = (
    ("SSH keys", r"/\.ssh(/.*)?"),
    ("an SSH key", r"/id_(rsa|dsa|ecdsa|ed25519|xmss)(_sk)?(?!.*\.pub$)([._-][^/]*)?"),
    ("an SSH key", r"/etc/ssh/ssh_host_[^/]*_key"),
    ("a key or certificate file", r"/[^/]*\.(pem|key|p8|p12|pfx|pkcs12|kdbx?|jks|keystore|ppk|keytab|ovpn|agekey)"),
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
    ("service credentials", r"/(client_secrets?|service[-_]?account|application_default_credentials)[^/]*\.json"),
    ("service credentials", r"/\.?(aws_|gcp_|google_)?credentials(\.(json|ya?ml|ini|csv|toml|txt|xml))?"),
    ("service credentials", r"/\.?secrets?(\.(json|ya?ml|ini|toml|txt|enc))?"),
    (
        "service credentials",
        r"/(\.tokens?|\.?(access_?|api_?|auth_?)tokens?(\.(json|txt))?|token\.json|accesskeys?\.csv)",
    ),
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

_PROTECTED: tuple[tuple[str, str], ...] = (
    ("git runs hooks and settings from it", r"/\.git(/.*)?"),
    ("git takes a folder that has one for a repository, and runs what its settings name", r"/head"),
    ("git fetches what it names", r"/\.gitmodules"),
    ("git reads commands from it", r"/(\.gitconfig|\.config/git(/.*)?)"),
    (
        "it sets what agents may do",
        r"/(agentkit\.toml|\.agentkit(/.*)?|\.mcp\.json|\.(claude|codex|cursor|gemini)(/.*)?)",
    ),
    (
        "shells run it when they start",
        r"/\.(bash(rc|_profile|_login|_logout|_aliases)|profile|kshrc|t?cshrc|login|inputrc)",
    ),
    ("shells run it when they start", r"/\.(z(shrc|shenv|profile|login|logout)|config/fish(/.*)?)"),
    (
        "sessions run it when they start",
        r"/\.(pam_environment|x(initrc|profile|session(rc)?)|config/(autostart|systemd)(/.*)?)",
    ),
    (
        "programs run it when they start",
        r"/\.(vimrc|exrc|nvimrc|emacs(\.d(/.*)?)?|gdbinit|lldbinit|tmux\.conf|screenrc)",
    ),
    (
        "programs run it when they start",
        r"/\.(pythonrc(\.py)?|rprofile|irbrc|pryrc|psqlrc|sqliterc|curlrc|wgetrc|ssh/rc)",
    ),
    ("every Python runs it when it starts", r"/(sitecustomize\.py|usercustomize\.py|[^/]+\.pth)"),
    ("editors run commands from it", r"/\.(vscode|idea|devcontainer|zed|fleet)(/.*)?"),
    (
        "commits run commands from it",
        r"/(\.husky(/.*)?|\.pre-commit-config\.ya?ml|\.pre-commit-hooks\.ya?ml|lefthook\.ya?ml)",
    ),
    ("build servers run it with secrets", r"/(\.github/(workflows|actions)(/.*)?|\.gitlab-ci\.ya?ml|\.circleci(/.*)?)"),
    ("build servers run it with secrets", r"/(jenkinsfile|azure-pipelines\.ya?ml|\.travis\.ya?ml|\.drone\.ya?ml)"),
    ("builds run programs that it names", r"/(\.cargo/config(\.toml)?|\.bazelrc|\.yarnrc)"),
)


_ASIDE = re.compile(r"(?<=[^/])(?:~|\.~\d{1,9}~|\.(?:bak|old|orig|save|sav|sw[a-p])\d{0,9}){1,9}\Z")
"""What editors and people put behind the name of a copy; a swap file and a lock also begin with a dot."""

_IN_MARKS = re.compile(r"/(?:#([^/]+)#|\.#([^/]+))\Z")


_MOST_CHARS = 4_096
"""No system opens a longer path."""

_UNSEEN = re.compile("[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Characters that some file systems pass over in names, and nobody sees."""

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
        """Why the path matches, None when it does not."""
        if not self._whether.search(plain):
            return None
        found = self._why.search(plain)
        return self._rows[int((found.lastgroup or "").removeprefix("row"))][0] if found else None


def _one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"/(?:{'|'.join(patterns)})\Z", re.DOTALL)


_SECRET_TABLE, _PROTECTED_TABLE = _Table(_SECRET), _Table(_PROTECTED)


def _plain(path: str) -> str:
    """The case-folded normal form from a slash on; a home's spelling is dropped, as are links through /proc."""
    spelled = path if path.isascii() else _UNSEEN.sub("", path)
    folded = _HOME.sub("/home/user", spelled.strip().casefold().removeprefix("file://"))
    plain = re.sub("/+", "/", posixpath.normpath("/" + folded))
    return re.sub("/+", "/", "/" + _PROC_LINK.sub("", plain))[-_MOST_CHARS:]


def secret(path: str) -> str | None:
    """Why nobody should read or write `path`, such as "SSH keys", or None; by its name in any spelling, or a copy's."""
    plain = _plain(path)
    original = _ASIDE.sub("", _IN_MARKS.sub(r"/\1\2", plain) if "#" in plain else plain)
    reason = _SECRET_TABLE.reason(original)
    if reason is None and original != plain:
        folder, _, name = original.rpartition("/")
        return _SECRET_TABLE.reason(f"{folder}/{name.removeprefix('.')}")
    return reason


def protected(path: str) -> str | None:
    """Why `path` in a workspace should not be written unasked: it runs code or loosens rules later. None if neither."""
    return _PROTECTED_TABLE.reason(_plain(path))


def resolve(path: str, folder: str, home: str | None = None) -> str | None:
    """The absolute normal form of `path` seen from the absolute `folder`; None when its text alone cannot tell.

    A leading ~ or $HOME is `home`; any other variable, substitution or another user's home cannot be told.
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

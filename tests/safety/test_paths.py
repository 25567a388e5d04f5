"""Tests for the kinds of secret and protected paths."""

from pathlib import Path

import pytest

from agentkit.safety import paths


@pytest.mark.for_each(
    "path",
    [
        *("~/.ssh/id_rsa", "$HOME/.ssh", "${HOME}/.ssh/config", "~bob/.ssh/authorized_keys", "/root/.SSH/id_ed25519"),
        *("id_rsa", "backup/id_rsa.bak", "id_ed25519", "server.key", "cert.pem", "store.p12", "x.pfx", "vault.kdbx"),
        *(".env", "./.env", "app/.env.local", ".env.production", "prod.env", ".envrc", "a/../.netrc", ".pgpass"),
        *("~/.aws/credentials", "~/.azure", "~/.config/gcloud/x.db", "~/.kube/config", "~/.docker/config.json"),
        *("~/.npmrc", ".pypirc", "~/.git-credentials", "~/.gnupg/secring.gpg", "~/.config/gh/hosts.yml"),
        *("/etc/shadow", "/etc/shadow-", "//etc///shadow", "/etc/./gshadow", "/etc/sudoers", "/etc/sudoers.d/x"),
        *("/proc/self/environ", "/proc/1/environ", "/proc/1/task/2/mem", "/proc/self/root/etc/shadow", "/dev/mem"),
        *("~/.bash_history", "~/.python_history", "~/.mozilla/firefox", "service-account.json", "file:///etc/shadow"),
        *("~/.config/google-chrome/Default/Cookies", "~/Library/Keychains/login.keychain-db", "credentials.json"),
        *("secring.gpg", "secring", "backup/secring.gpg.bak", "private.asc", "my-private-key.asc", "secret_key.gpg"),
        *("rclone.conf", ".streamlit/secrets.toml", ".streamlit/my_secrets.toml", "~/.config/rclone/rclone.conf"),
        *(".vault-token", ".vault_pass", "vault-password.txt", "vault-init.json", "ops/vault_unseal_keys.json"),
    ],
)
def test_secret_names_are_known_in_every_spelling(path):
    """Keys, passwords, histories and other processes' memory are secret, however the path is spelled."""
    assert paths.secret(path)


@pytest.mark.for_each(
    "path",
    [
        *(".env~", ".env-production", ".env_local", "#.env#", ".#.env", ".env.swp", ".dev.vars", ".dev.vars.staging"),
        *("server.key~", "server.key.bak", "prod.pem.old", ".server.key.swp", "id_rsa~", ".id_rsa.swp", "id_rsa.~1~"),
        *(".netrc.bak", ".git-credentials~", "secrets.yml.bak", "~/.aws/credentials.orig", "server.key.bak~"),
        *("~/.ssh/a\nb", "a\nb.pem"),
        *("terraform.tfvars", "prod.auto.tfvars.json", "/run/secrets/db", "/var/run/secrets/db", "/var/spool/mail/me"),
    ],
)
def test_copies_and_variants_of_secrets_are_secret(path):
    """Backups and variants of a secret file's name are secret as well."""
    assert paths.secret(path)


@pytest.mark.for_each(
    "path",
    [
        *(".env.example~", ".env-sample", ".env_template.bak", ".env.dist", ".env.local.example", "~", "a/~", "a/.bak"),
        *("notes.md~", "#notes.md#", "main.py.orig", "id_rsa.pub.bak", "terraform.tfvars.example", "a/##"),
    ],
)
def test_copies_of_ordinary_files_are_not_secret(path):
    """A copy of a template or a text file is not secret."""
    assert paths.secret(path) is None


def test_long_names_are_judged_quickly():
    """Long paths are judged quickly."""
    for path in (
        "/" * 20_000,
        "a/" * 5_000,
        "~" * 50_000 + "a",
        ".bak" * 20_000 + "/",
        "#" * 90_000,
        "/.ssh" * 50_000 + "\n",
    ):
        paths.secret(path)


@pytest.mark.for_each(
    "path",
    [
        *("README.md", "keys.py", "environment.md", ".env.example", ".env.sample", "docs/.env.template", "secrets.py"),
        *(
            "id_rsa.pub",
            "test_env.py",
            "cookies.py",
            "/etc/os-release",
            "/proc/cpuinfo",
            "",
            "/",
            "~",
            "token_count.py",
        ),
        *(
            "release.tar.gz.asc",
            "public.asc",
            "privacy-policy.txt.asc",
            "secrets-1.0.tar.gz.asc",
            ".streamlit/config.toml",
        ),
        *("vault.py", "vault.md", "vault_client/token.go", "pubring.gpg", "rclone.md", "test_vault_pass.py"),
        *("monkey.txt", "token_count.py", "src/keyboard.js", "history.md", "aws/client.py", "shadow.css"),
    ],
)
def test_ordinary_names_are_not_secret(path):
    """A name that only resembles a secret file's name is not secret."""
    assert paths.secret(path) is None


@pytest.mark.for_each(
    "path",
    [
        *(".git/hooks/pre-commit", ".git/config", ".git", "sub/.git/HEAD", ".gitmodules", "agentkit.toml", ".bashrc"),
        *(".vscode/tasks.json", ".github/workflows/ci.yml", "x.pth", "sitecustomize.py", ".husky/pre-commit", ".zshrc"),
        *("data/HEAD", "data/head", ".g\u200cit/config", "\ufeff.bashrc", ".vscode\u200b/tasks.json"),
    ],
)
def test_files_that_run_code_later_are_protected(path):
    """Files that git, shells, editors, build servers or Python run automatically need approval to be written."""
    assert paths.protected(path)


LOCKED = (Path(__file__).parent / "locked_paths.txt").read_text("utf-8").splitlines()


@pytest.mark.for_each("path", [*LOCKED, *(f"a/b/c/d/{path}" for path in LOCKED[:3])])
def test_settings_of_programs_are_locked(path):
    """Start-up files and settings of editors, agents and build tools are read-only and need approval."""
    assert paths.locked(path)
    assert paths.protected(path)
    parts = Path(path).parts
    modes = [("/".join(parts[:at]), parts[at]) for at in range(len(parts))]
    assert any(paths.locked(f"{mode}/{part}") and part in paths.candidates(mode, ["x", part]) for mode, part in modes)


@pytest.mark.parametrize(
    "path", ["a.env ", ".env .", "app/.env. .", ".ssh /id", "server.key ", ".bashrc.", ".vscode /x"]
)
def test_trailing_spaces_and_dots_are_ignored(path):
    """A name that ends in spaces or dots is treated as the name without them."""
    assert paths.secret(path) or paths.protected(path)
    folder, _, name = path.rpartition("/")
    if not folder:
        assert paths.hidden(path) or paths.locked(path)
        assert name in paths.candidates(folder, ["x", name])


@pytest.mark.for_each(
    "path",
    [
        *("sitecustomizer.py", "sitecustomize.md", "run/x.xml", "tools/bazel.py", "opencode.md", "buildspec.md"),
        *("profile.py", "ghci", "docs/mvn/x", "vimrc.md", "...", "a...b", "src/builds/x.yml", ".gitlab/issue.md"),
        *(".github/dependabot.yml", "mise.md", ".config/other.toml", "applications/x.desktop", "path.py"),
    ],
)
def test_names_like_settings_are_not_locked(path):
    """Names that only resemble those of settings are not locked."""
    assert not paths.locked(path)
    assert paths.protected(path) is None


@pytest.mark.for_each(
    "path",
    [".gitignore", ".gitattributes", ".github/CODEOWNERS", "Makefile", "src/config", "src/head.py", "HEADER", "ahead"],
)
def test_other_files_are_not_protected(path):
    """Files that only people run or read can be written."""
    assert paths.protected(path) is None


@pytest.mark.for_each(
    ("path", "resolved"),
    [
        *(
            ("a", "/w/a"),
            ("./a/../b", "/w/b"),
            ("../x", "/x"),
            ("/etc//x/", "/etc/x"),
            ("//etc/x", "/etc/x"),
            ("", "/w"),
        ),
        *(("", "/w"), ("~", "/home/me"), ("~/x", "/home/me/x"), ("$HOME/x", "/home/me/x"), ("${HOME}", "/home/me")),
        *(("$X/y", None), ("~bob/x", None), ("`x`", None), ("a\0b", None), ("a~b", "/w/a~b")),
    ],
)
def test_path_is_resolved_from_a_folder(path, resolved):
    """A path is made absolute and normalized, or is `None` if only a shell could resolve it."""
    assert paths.resolve(path, "/w", "/home/me") == resolved


def test_missing_home_folder_is_not_guessed():
    """Without a home folder, ~ is not resolved."""
    assert paths.resolve("~/x", "/w") is None


@pytest.mark.parametrize(
    ("path", "root", "is_inside"),
    [
        *(("/w", "/w", True), ("/w/a", "/w", True), ("/w/../x", "/w", False), ("/wx", "/w", False)),
        *(("/a", "/", True), ("//w/a", "/w/", True), ("/", "/w", False)),
    ],
)
def test_inside_compares_whole_parts(path, root, is_inside):
    """A sibling folder with the same prefix is not inside a folder."""
    assert paths.inside(path, root) is is_inside


def test_samples_match_the_table():
    """The samples for testing shell patterns are secret or protected according to the table."""
    below = [f"/home/user/{name}" for name in paths.SECRETS_OF_HOMES]
    assert [each for each in (*paths.SECRETS_OF_THE_SYSTEM, *below) if not paths.secret(each)] == []
    assert [each for each in paths.SECRETS_OF_FOLDERS if not paths.hidden(each)] == []
    assert [
        each for each in paths.PROTECTED_NAMES if each not in (".github", "workflows") and not paths.protected(each)
    ] == []


@pytest.mark.for_each(
    "path",
    [
        *(".env", "A.PEM", "id_rsa.bak", "#.env#", ".docker/config.json", ".config/gh/x", ".ssh/a/b", "a\nb.pem"),
        *(".vscode", ".github/workflows", "sitecustomize.py", "x.pth", ".husky", ".git/modules/a/b/config", ".ENVRC"),
        *(
            ".git/worktrees/x/config.worktree",
            "Library/Keychains/x",
            "etc/ssh/ssh_host_x_key",
            ".gradle/gradle.properties",
        ),
        *("\u200b.env", ".env.local~", ".huggingface/token", "run/secrets/x", ".config/git/config", "agentkit.toml"),
    ],
)
def test_quick_search_finds_all_candidates(path):
    """All hidden or locked names are among the candidates of their folder."""
    assert paths.hidden(path) or paths.locked(path)
    for above in ("", "a", "a/b/c/d"):
        folder, _, name = f"{above}/{path}".strip("/").rpartition("/")
        assert name in paths.candidates(folder, ["ordinary", name, "main.py"])


def test_branches_and_packages_are_not_locked_or_hidden():
    """Branches can have any name, and packages contain certificates and settings."""
    assert not paths.locked(".git/refs/heads/config")
    assert not paths.locked(".git/modules/x/refs/heads/hooks")
    assert not paths.hidden("node_modules/x/cert.pem", packaged=True)
    assert paths.hidden("node_modules/x/.env", packaged=True)
    assert not paths.locked("node_modules/x/.github/workflows", packaged=True)
    assert paths.locked("site-packages/x.pth", packaged=True)


def test_threat_model_matches_the_table_of_paths():
    """The page has one row for each kind of path, and the code classifies its examples as stated."""
    page = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text("utf-8")
    section = page.partition("## Secret and protected paths")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"][
        2:
    ]
    kinds = [dict.fromkeys(reason for reason, _ in group.rows) for group in paths.groups()]
    assert [row[0] for row in rows] == [reason for group in kinds for reason in group]
    for _, examples, *marks in rows:
        for example in examples.replace("`", "").split(", "):
            anywhere, packaged = (
                (paths.hidden(example, packaged=each), paths.locked(example, packaged=each)) for each in (False, True)
            )
            hidden, locked = (
                "yes" if everywhere else "not in packages" if here else ""
                for here, everywhere in zip(anywhere, packaged, strict=True)
            )
            denied, question = ("yes" if found else "" for found in (paths.secret(example), paths.protected(example)))
            treatment = [hidden, denied, locked, question]
            assert all(mark in ("", now) for mark, now in zip(marks, treatment, strict=True)), (example, treatment)


def test_pattern_of_a_group_is_compiled_once():
    """Tables of the same groups share their patterns, and ordinary paths need no others."""
    tables = [paths._Table(lambda group: bool(group.rows)), paths._Table(lambda group: group.hidden)]
    paths._line_pattern.cache_clear()
    assert [table.group("/src/main.py") for table in tables] == [None, None]
    assert paths._line_pattern.cache_info().misses == len(paths.groups())

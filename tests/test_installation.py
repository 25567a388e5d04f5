"""Tests for the command that installs an extra, depending on the installation of agentkit."""

import json
import re
import sys

import pytest

from agentkit import installation
from agentkit.installation import install_command, local_source


def test_checkout_is_named():
    """The install command for a checkout contains its folder and is editable."""
    command = install_command("mcp")
    assert re.match(r"(uv )?(\S*/)?pip install (-e )?'/", command)
    assert command.endswith("[mcp]'")


@pytest.mark.parametrize(
    ("prefix", "start"),
    [
        ("/home/ada/.local/share/uv/tools/agentkit-tools", "uv tool install "),
        ("/home/ada/.local/pipx/venvs/agentkit-tools", "pipx install --force "),
        ("/home/ada/.cache/uv/archive-v0/x7f", "uvx --from "),
    ],
)
def test_installer_of_the_environment_is_named(prefix, start):
    """Environments of uv, uvx and pipx use their own commands."""
    assert install_command("serve", prefix).startswith(start)


def test_pip_is_used_if_it_is_installed(tmp_path):
    """The command uses pip if it is installed, even in an environment created by uv."""
    (tmp_path / "pyvenv.cfg").write_text("home = /usr\nuv = 0.9\n")
    for prefix in (str(tmp_path), sys.prefix):
        assert re.match(r"(\S*/)?pip install", install_command(prefix=prefix))
    assert installation._distribution("no-such-package-77") is None


def test_path_of_pip_is_shown_if_needed(tmp_path, monkeypatch):
    """The command contains the path of pip unless the shell finds the same one."""
    own = tmp_path / "bin" / "pip"
    own.parent.mkdir()
    own.touch(mode=0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    assert install_command(prefix=str(tmp_path)).startswith(f"{own} install ")
    monkeypatch.setenv("PATH", str(own.parent))
    assert install_command(prefix=str(tmp_path)).startswith("pip install ")


def test_local_source_is_returned(tmp_path):
    """The local source is the wheel or checkout of the installation if it still exists."""
    wheel = tmp_path / "a b" / "agentkit_tools-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    (tmp_path / "pyproject.toml").touch()
    for url, place in (
        (wheel.as_uri(), str(wheel)),
        (tmp_path.as_uri(), str(tmp_path)),
        (wheel.with_name("gone.whl").as_uri(), ""),
        ("https://example.org/agentkit_tools-0.1.0-py3-none-any.whl", ""),
    ):
        assert local_source(json.dumps({"url": url})) == place
    assert (local_source(""), local_source("{")) == ("", "")

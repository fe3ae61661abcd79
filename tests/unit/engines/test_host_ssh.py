"""The way to a host: what may stand in the settings, what ssh is told, and what its failures mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest

from tarmac.engines.hosts.connection import NotConnected
from tarmac.engines.hosts.ssh import Refused, Ssh, explained
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.errors import InvalidInput

needs_ssh = pytest.mark.skipif(which("ssh") is None, reason="there is no ssh here")


@pytest.mark.parametrize("ssh", ["login", "ada@login.example.org", "ada_2@10.0.0.7", "login-3", "fe80::1"])
def test_what_ssh_takes_for_a_host_is_taken(ssh: str) -> None:
    settings = {"directory": "/scratch/ada", "partition": "gpu", "ssh": ssh}
    assert read_settings(settings).ssh == ssh


@pytest.mark.parametrize(
    "ssh",
    ["-oProxyCommand=touch /tmp/x", "ada@-oProxyCommand=x", "-l", "a b", "a;b", "$(x)", "a\nb", "", "@x", 7],
)
def test_what_could_be_an_option_or_a_command_is_refused(ssh: object) -> None:
    with pytest.raises(InvalidInput, match="ssh"):
        read_settings({"directory": "/scratch/ada", "partition": "gpu", "ssh": ssh})


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A config of ssh of the test's own, and a place for sockets: their names are short."""
    with TemporaryDirectory(dir="/tmp") as directory:
        runtime = Path(directory, "r")
        runtime.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        yield Path(directory, "config")


def reached_by(config: Path, *options: str) -> Ssh:
    config.write_text("\n".join(["Host login", "HostName login.example.org", *options, ""]))
    return Ssh("login", ("ssh", "-F", str(config)))


@needs_ssh
def test_a_session_is_shared_and_that_of_the_user_where_there_is_one(config: Path) -> None:
    ssh = reached_by(config)
    assert "ControlMaster=auto" in ssh.argv()
    session = ssh.session()
    assert session is not None
    assert session.parent == config.parent / "r" / "tarmac"
    assert session.parent.stat().st_mode & 0o777 == 0o700

    ssh = reached_by(config, "ControlPath /tmp/own-%h", "ControlMaster auto")
    assert not [word for word in ssh.argv() if word.startswith("Control")]
    assert ssh.session() == Path("/tmp/own-login.example.org")


@needs_ssh
def test_a_directory_for_sockets_that_others_may_enter_is_not_used(config: Path) -> None:
    (config.parent / "r" / "tarmac").mkdir(mode=0o755)
    ssh = reached_by(config)
    assert ssh.session() is None
    assert ssh.opening() == "ssh -o ControlMaster=auto -fN login with a ControlPath for it in ~/.ssh/config"
    assert not [word for word in ssh.argv() if word.startswith("Control")]


@needs_ssh
def test_a_second_factor_needs_a_session_by_hand_and_the_command_is_said(config: Path) -> None:
    ssh = reached_by(config)
    said = NotConnected("ended", ["ada@login: Permission denied (publickey,keyboard-interactive)."], 255)
    error = explained(ssh, said, python="python3")
    assert isinstance(error, Refused)
    assert error.hint is not None
    assert error.hint.startswith("open a session by hand, which is then shared: ssh -o ControlMaster=auto")
    assert f"ControlPath={ssh.session()}" in error.hint
    assert error.hint.endswith("-o ControlPersist=yes -fN login")


@needs_ssh
def test_an_old_python_is_named(config: Path) -> None:
    error = explained(reached_by(config), NotConnected("old", old_python="3.6.8"), python="python3")
    assert error.message == "login: python3 there is 3.6.8"

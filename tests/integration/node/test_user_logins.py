"""A host that works as a system user of this machine, with real accounts: what it refuses (N15)."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from system_users import needs_root, two_users
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.ssh import Become, Refused
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.errors import InvalidInput
from tarmac.node.kernel import system_users
from tarmac.node.starting import Installation

pytestmark = needs_root

FIELDS = {"directory": "/shared", "partition": "batch"}


@pytest.fixture(scope="module")
def accounts() -> Iterator[tuple[pwd.struct_passwd, pwd.struct_passwd]]:
    with two_users() as found:
        yield found


def host_of(user: pwd.struct_passwd, directory: Path, tmp_path: Path, *, name: str = "") -> SshHost:
    login = Become("here", user=user.pw_name, least_uid=1000)
    verified = (name or user.pw_name, 1000)
    return SshHost(directory, login, python="/usr/bin/python3", copies=tmp_path, user=verified)


def test_n15_a_login_has_the_users_groups_and_no_variable_of_the_server(
    accounts: tuple[pwd.struct_passwd, pwd.struct_passwd],
) -> None:
    """N15: groups of the machine's database; an environment made from nothing."""
    name = accounts[0].pw_name
    argv = Installation(sys.executable).as_user(name, 1000)
    done = subprocess.run(
        [*argv, "id; grep -E 'CapEff|NoNewPrivs' /proc/self/status; env"],
        env={"PATH": os.environ["PATH"], "TARMAC_HOME": "/root/home", "SLURM_CONF": "/etc/slurm.conf"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == subprocess.run(["id", name], capture_output=True, text=True, check=True).stdout.strip()
    assert lines[1:3] == ["CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
    names = {line.partition("=")[0] for line in lines[3:]} - {"PWD", "SHLVL", "_", "OLDPWD"}
    assert names == {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "SLURM_CONF"}


def test_n15_the_directory_is_private(
    accounts: tuple[pwd.struct_passwd, pwd.struct_passwd], tmp_path: Path
) -> None:
    """N15: of the user alone, and below no directory of another user."""
    user, other = accounts
    home = Path(user.pw_dir)
    host_of(user, home / "runs/site", tmp_path).room()
    found = (home / "runs/site").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (user.pw_uid, 0o700)
    with pytest.raises(Refused, match=rf"{other.pw_dir}.*Permission denied"):
        host_of(user, Path(other.pw_dir) / "runs", tmp_path).room()
    (theirs := home / "theirs").mkdir()
    os.chown(theirs, other.pw_uid, other.pw_gid)
    theirs.chmod(0o777)
    for directory in (theirs, theirs / "runs"):
        with pytest.raises(Refused, match=f"{theirs} belongs to another user"):
            host_of(user, directory, tmp_path).room()
    shutil.rmtree(theirs)


def test_n15_a_login_of_another_user_is_refused(
    accounts: tuple[pwd.struct_passwd, pwd.struct_passwd], tmp_path: Path
) -> None:
    """N15: as a site may map names; before anything else is done there."""
    user, other = accounts
    directory = Path(user.pw_dir) / "never"
    with pytest.raises(Refused, match=f"the login is that of uid {user.pw_uid}, not of {other.pw_name}"):
        host_of(user, directory, tmp_path, name=other.pw_name).room()
    assert not directory.exists()
    with pytest.raises(Refused, match="daemon is an account of the system"):
        Become("here", user="daemon", least_uid=1000).argv()


def test_n15_root_has_no_home_of_a_system_user(tmp_path: Path) -> None:
    """N15: a login that stayed root."""
    with pytest.raises(ValueError, match="the login is that of uid 0, not of root"):
        system_users.own_home(str(tmp_path), "root", 1000)


@pytest.mark.parametrize("path", ["/scratch", "{user}", "/a/../{user}", "/a b/{user}", "/{user}/{group}"])
def test_n15_the_place_of_directories_has_the_users_name(path: str) -> None:
    """N15: otherwise users would share a directory."""
    with pytest.raises(InvalidInput, match="'user_directory' is"):
        read_settings({**FIELDS, "user_directory": path})
    assert read_settings({**FIELDS, "user_directory": "/s/{user}"}).user_directory == "/s/{user}"

"""The script of a rented machine, run by real shells in virtual time."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitserver import SSHD
from tarmac.launch.machine_script import machine_script

SHELLS = [shell for shell in ("dash", "busybox sh", "bash") if shutil.which(shell.split()[0])]
LIMIT_S = 60.0

PROGRAMS = """\
sleep() {{
  minute=$(($(cat {root}/minute) + 1))
  echo "$minute" > {root}/minute
  [ ! -e {root}/at-$minute ] || . {root}/at-$minute
}}
poweroff() {{ cat {root}/minute > {root}/off; exit; }}
shutdown() {{ poweroff; }}
systemctl() {{ return 1; }}
service() {{ echo "$@" >> {root}/services; [ "$1" = sshd ]; }}
nohup() {{ echo "$@" > {root}/begun; }}
"""
"""In place of the programs that a test needs to see: functions, because a busybox prefers its own programs.

A minute passes at once. What happens in minute N is in the file at-N.
"""


@dataclass(frozen=True)
class Computer:
    """A directory that stands for a machine."""

    root: Path
    shell: str

    @property
    def own(self) -> Path:
        """The directory that the script makes."""
        return self.root / "tarmac"

    def boot(self, *, limit_s: float | None = None) -> None:
        """Run the script, as at a first start; the watchdog that it starts begins with `watch`."""
        script = machine_script(
            admitted="ssh-ed25519 AAAA tarmac\n",
            machine_key=(self.root / "key").read_text(),
            limit_s=limit_s,
            directory=str(self.own),
            sshd_config=str(self.root / "sshd_config"),
        )
        (self.root / "script").write_text(script)
        with self._begin(self.root / "script") as started:
            assert (self.root / "begun").read_text() == f"setsid sh {self.own}/watchdog\n"
            started.wait(LIMIT_S)

    def watch(self) -> int:
        """Run the watchdog until it ends; the minute."""
        with self._begin(self.own / "watchdog") as watchdog:
            minute = int((self.root / "off").read_text())
            watchdog.wait(LIMIT_S)
        return minute

    def at(self, minute: int, command: str) -> None:
        """Have the machine run a command in a minute."""
        (self.root / f"at-{minute}").write_text(command + "\n")

    def sign(self, minute: int) -> None:
        """Leave a sign of the server in a minute."""
        self.at(minute, f"touch -d @{1_700_000_000 + minute * 60} {self.own}/sign")

    def _begin(self, program: Path) -> subprocess.Popen[bytes]:
        argv = [*self.shell.split(), "-c", '. "$0"; . "$1"', str(self.root / "programs"), str(program)]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL)


@pytest.fixture(params=SHELLS)
def computer(request: pytest.FixtureRequest, tmp_path: Path) -> Computer:
    (tmp_path / "programs").write_text(PROGRAMS.format(root=tmp_path))
    (tmp_path / "minute").write_text("0\n")
    for name in ("off", "begun"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "sshd_config").write_text("PermitRootLogin no\nHostKey /etc/ssh/ssh_host_ed25519_key\n")
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(argv, check=True, timeout=LIMIT_S)
    return Computer(tmp_path, request.param)


def test_it_ends_an_hour_after_the_last_sign(computer: Computer) -> None:
    for minute in (30, 85, 140):
        computer.sign(minute)
    computer.boot()
    assert computer.watch() == 200


def test_it_ends_at_its_limit_whatever_signs_there_are(computer: Computer) -> None:
    for minute in range(1, 130):
        computer.sign(minute)
    computer.boot(limit_s=7200.0)
    assert computer.watch() == 120


def test_a_restart_of_the_machine_does_not_extend_its_limit(computer: Computer) -> None:
    computer.at(7, "poweroff")
    computer.boot(limit_s=1200.0)
    assert computer.watch() == 7
    assert computer.watch() == 21, "the step in which it was interrupted counts twice"


def test_a_clock_that_is_set_ends_nothing(computer: Computer) -> None:
    """A sign from before the clock was set is a sign."""
    computer.at(40, f"touch -d @1 {computer.own}/sign")
    computer.boot()
    assert computer.watch() == 100


def test_a_disk_that_takes_nothing_does_not_stop_the_watchdog(computer: Computer) -> None:
    computer.at(3, "rm -f used; mkdir used.new")
    computer.boot(limit_s=600.0)
    assert computer.watch() == 10


def test_sshd_admits_the_rental_alone_and_has_the_key_of_the_server(computer: Computer) -> None:
    """Its lines come before those of the image, so that these cannot undo them."""
    if SSHD is None:
        pytest.skip("there is no sshd here")
    computer.boot()
    config = computer.root / "sshd_config"
    first = config.read_text()
    argv = [SSHD, "-T", "-f", str(config)]
    found = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    shown = found.stdout.splitlines()
    assert "permitrootlogin without-password" in shown
    assert f"authorizedkeysfile .ssh/authorized_keys {computer.own}/admitted-%u" in shown
    assert next(line for line in shown if line.startswith("hostkey ")) == f"hostkey {computer.own}/host_key"
    assert (computer.own / "admitted-root").read_text() == "ssh-ed25519 AAAA tarmac\n"
    assert (computer.own / "host_key").read_text() == (computer.root / "key").read_text()
    assert (computer.own / "host_key").stat().st_mode & 0o077 == 0
    assert (computer.root / "services").read_text() == "ssh restart\nsshd restart\n"
    computer.boot()
    assert config.read_text() == first, "a second start changes nothing"

"""N16: backups that are made while runs work, and restored at another place; upgrades without a lost run."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import sqlite3
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shell import LIMIT_S, Shell
from small_disks import small_disk

PASSWORD = "correct horse battery"
NEWER = "UPDATE alembic_version SET version_num = 9999"

TRAINING = """import os
import time
import tarmac
start = tarmac.latest_checkpoint()
first = int((start / "step").read_text()) + 1 if start else 0
print("begins at step", first, len(os.environ["WORD"]), flush=True)
for step in range(first, 6000):
    time.sleep(0.1)
    with tarmac.checkpoint(step=step, keep=2) as directory:
        (directory / "step").write_text(str(step))
    print("saved step", step, flush=True)
"""


class Lab:
    """A server over TLS with accounts, and its users elsewhere."""

    def __init__(self, shell: Shell) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.shell = shell
        self.cookie = ""

    def tarmac(self, token: str, *arguments: str, code: int = 0) -> str:
        """A command of a user on another machine."""
        url, ca = f"https://127.0.0.1:{self.port}", str(self.shell.directory / "ca.pem")
        variables = {"TARMAC_HOME": "", "TARMAC_URL": url, "TARMAC_TOKEN": token, "TARMAC_CA": ca}
        done = self.shell.tarmac(*arguments, code=code, variables=variables)
        return done.stdout + done.stderr

    def browse(self, method: str, path: str, body: object = None) -> int:
        """A request of a browser, with the cookie of its session."""
        context = ssl.create_default_context(cafile=str(self.shell.directory / "ca.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=LIMIT_S)
        with closing(connection):
            text = json.dumps(body) if body else None
            connection.request(
                method, f"/api/v1{path}", text, {"Cookie": self.cookie, "Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            answer.read()
            self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
            return answer.status


@pytest.fixture
def lab(shell: Shell) -> Lab:
    """With bob, who has a password, a token, limits and credits; carol is disabled, and her token revoked."""
    made = Lab(shell)
    shell.tarmac("users", "add", "ada", code=0)
    shell.home.joinpath("settings.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{made.port}"\ntls = "lab"\n[[local]]\nslots = 2\n'
    )
    shell.tarmac(
        "secret",
        "set",
        "WORD",
        "--shared",
        "--as",
        "variable",
        "--variable",
        "WORD",
        "--file",
        "-",
        stdin="hush",
        code=0,
    )
    for name in ("bob", "carol"):
        shell.tarmac("users", "add", name, "--password", stdin=f"{PASSWORD}\n", code=0)
    shell.tarmac("limits", "set", "--user", "bob", "--largest", "1", code=0)
    shell.tarmac("credits", "grant", "100", "--user", "bob", code=0)
    shell.tarmac("server", "restart", code=0)
    shell.write("ca.pem", (shell.home / "tls/ca.pem").read_text())
    return made


def with_home(shell: Shell, home: Path) -> Shell:
    return Shell(home, shell.directory)


def test_a_backup_restored_elsewhere_has_everything_and_its_runs_continue(lab: Lab, tmp_path: Path) -> None:
    """N15, N16: accounts, tokens, sessions, limits, credits and audit; over TLS, with a run in progress."""
    shell = lab.shell
    bob, carol = (
        shell.tarmac("tokens", "add", "t", "--user", name).stdout.strip() for name in ("bob", "carol")
    )
    lab.tarmac(carol, "ls")
    shell.tarmac("users", "set", "carol", "--disable", code=0)
    assert lab.browse("POST", "/session", {"user": "bob", "password": PASSWORD}) == 200
    shell.write("train.py", TRAINING)
    lab.tarmac(
        bob, "run", "--name", "train", "--slots", "1", "--secret", "WORD", "-d", "--", "python3", "train.py"
    )
    shell.until("logs", "train", said="saved step 5")
    backup = tmp_path / "backups/monday"
    shell.tarmac("server", "backup", str(backup), code=0)
    names = ["home.tar.gz", "manifest.json", "secrets.key", "tarmac.db"]
    assert [(path.name, oct(path.stat().st_mode)[-3:]) for path in sorted(backup.iterdir())] == [
        (name, "600") for name in names
    ]
    assert oct(backup.stat().st_mode)[-3:] == "700"
    before = _kept(shell)
    lab.tarmac(bob, "run", "--name", "later", "-d", "--", "true")
    shell.tarmac("stop", "--all", "--yes", "--wait", code=0)
    shell.tarmac("server", "stop", code=0)
    while shell.home.exists():  # a runner may still write its last lines
        shutil.rmtree(shell.home, ignore_errors=True)

    other = with_home(shell, tmp_path / "elsewhere/home")
    try:
        assert other.json("server", "restore", str(backup)) == {"home": str(other.home)}
        other.tarmac("server", "start", "--take-over", code=0)
        assert "later" not in lab.tarmac(bob, "ls")
        assert "was revoked" in lab.tarmac(carol, "ls", code=1)
        assert lab.browse("GET", "/account") == 200
        assert "may have 1 slots" in lab.tarmac(bob, "run", "--slots", "2", "--", "true", code=2)
        assert _kept(other) == before
        other.until("logs", "train", "--attempt", "2", said="saved step")
        first, letters = other.tarmac("logs", "train", "--attempt", "2").stdout.split()[3:5]
        assert int(first) > 0, "it resumes from its checkpoint"
        assert letters == "4", "its secret is readable"
        assert [each["outcome"] for each in other.json("show", "train")["attempts"]] == ["lost", None]
        lab.tarmac(bob, "stop", "train", "--wait")
    finally:
        other.close()


@pytest.fixture
def backed_up(shell: Shell) -> Path:
    """A backup of a home with a secret and an ended run; its server has stopped."""
    shell.tarmac("secret", "set", "WORD", "--file", "-", stdin="hush", code=0)
    shell.tarmac("run", "--name", "done", "--", "echo", "long done", code=0)
    shell.tarmac("server", "backup", "kept", code=0)
    shell.tarmac("server", "stop", code=0)
    return shell.directory / "kept"


def test_what_cannot_be_backed_up_is_refused(shell: Shell) -> None:
    assert "there is no database" in shell.tarmac("server", "backup", "kept", code=2).stderr
    shell.tarmac("server", "start", code=0)
    shell.write("full/file", "mine")
    assert "full is not empty" in shell.tarmac("server", "backup", "full", code=2).stderr
    inside = str(shell.home / "backups")
    assert "is in the home" in shell.tarmac("server", "backup", inside, code=2).stderr
    assert not (shell.home / "backups").exists()
    with shell.start("server", "backup", "kept", variables={"TARMAC_URL": "http://127.0.0.1:1"}) as process:
        assert "for the server's own machine" in process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 2
    assert sorted(path.name for path in shell.directory.iterdir()) == ["full"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_leaves_nothing_of_a_backup_and_of_a_restored_home(shell: Shell, backed_up: Path) -> None:
    (shell.home / "code/large").write_bytes(os.urandom(1 << 20))
    shell.tarmac("server", "backup", "large", code=0)
    disk = shell.directory / "disk"
    with small_disk(disk, "1m"):
        refused = shell.tarmac("server", "backup", "disk/kept", code=1)
        assert "No space left on device" in refused.stderr
        refused = shell.tarmac("server", "restore", "large", "--home", "disk/home", code=1)
        assert re.search("Wrote only|No space left on device", refused.stderr)
        assert [path.name for path in disk.rglob("*")] == ["home", "server.lock"]
    with small_disk(shell.directory / "tiny", "256k"):
        assert "full" in shell.tarmac("server", "backup", "tiny/kept", code=1).stderr
        assert list((shell.directory / "tiny").iterdir()) == []


def test_a_home_in_use_is_not_restored_into(shell: Shell, backed_up: Path) -> None:
    refused = shell.tarmac("server", "restore", "kept", code=2)
    assert f"the home {shell.home} is not empty" in refused.stderr
    assert f"mv {shell.home} {shell.home}.old" in refused.stderr
    shell.tarmac("server", "start", code=0)
    assert "already serves" in shell.tarmac("server", "restore", "kept", code=3).stderr
    assert shell.tarmac("logs", "done").stdout == "long done\n"


def test_a_damaged_backup_is_refused_before_anything_is_written(shell: Shell, backed_up: Path) -> None:
    archive, copy, manifest = (backed_up / name for name in ("home.tar.gz", "tarmac.db", "manifest.json"))
    other = str(shell.directory / "other")

    def refused() -> str:
        found = shell.tarmac("server", "restore", "kept", "--home", other, code=2)
        assert not Path(other).exists()
        return found.stderr

    archive.write_bytes(archive.read_bytes()[:-1])
    copy.rename(backed_up / "aside")
    text = refused()
    assert f"missing, or changed since the backup: {archive}, {copy}" in text.replace(
        "kept/", f"{backed_up}/"
    )
    document = json.loads(manifest.read_text())
    document |= {"files": {}, "schema": "9999"}
    manifest.write_text(json.dumps(document))
    assert "the schema of the backup is 9999, and this tarmac reads" in refused()
    manifest.unlink()
    assert "holds no backup" in refused()


def test_the_key_of_secrets_is_kept_elsewhere(shell: Shell, backed_up: Path) -> None:
    """A restored home without it names it; with another key it is refused."""
    shell.tarmac("server", "backup", "bare", "--without-key", code=0)
    assert not (shell.directory / "bare/secrets.key").exists()
    text = shell.tarmac("server", "restore", "bare", "--home", "one", code=2).stderr
    assert "missing, or changed since the backup: bare/secrets.key" in text
    assert "--key FILE" in text
    shell.write("wrong.key", "another key")
    text = shell.tarmac("server", "restore", "bare", "--home", "one", "--key", "wrong.key", code=2).stderr
    assert "changed since the backup: wrong.key" in text
    shell.tarmac("server", "restore", "bare", "--home", "one", "--key", "kept/secrets.key", code=0)
    assert (shell.directory / "one/secrets.key").read_bytes() == (backed_up / "secrets.key").read_bytes()
    shell.tarmac("server", "restore", "bare", "--home", "two", "--without-key", code=0)
    assert not (shell.directory / "two/secrets.key").exists()


def test_settings_that_are_in_the_new_home_replace_the_old_ones(shell: Shell, backed_up: Path) -> None:
    database = shell.directory / "elsewhere.db"
    other = Shell(shell.directory / "other", shell.directory)
    shell.write("other/settings.toml", f'[database]\nurl = "sqlite:///{database}"\n')
    found = shell.json("server", "restore", "kept", "--home", str(other.home))
    assert found == {"home": str(other.home)}
    with closing(sqlite3.connect(database)) as copy:
        assert copy.execute("SELECT name FROM run").fetchall() == [("done",)]
    other.tarmac("server", "start", "--take-over", code=0)
    try:
        assert other.tarmac("logs", "done").stdout == "long done\n"
        other.tarmac("server", "backup", "again", code=0)
        into_third = ("server", "restore", "again", "--home", "third")
        assert "elsewhere.db exists already" in other.tarmac(*into_third, code=2).stderr
        assert sorted(path.name for path in (shell.directory / "third").iterdir()) == ["server.lock"]
        other.tarmac(*into_third, "--without-database", code=0)
        assert "[database]" in (shell.directory / "third/settings.toml").read_text()
    finally:
        other.close()


def test_an_upgrade_keeps_runs_in_progress(shell: Shell) -> None:
    gate = shell.gate()
    shell.tarmac("run", "--name", "live", "-d", "--", "sh", "-c", f"echo up; read _ < {gate}; echo through")
    shell.until("logs", "live", said="up")
    shell.tarmac("run", "--name", "next", "--after", "live", "-d", "--", "true", code=0)
    before = shell.json("server", "status")["pid"]
    done = shell.tarmac("server", "upgrade", "kept", code=0)
    assert done.stdout.startswith("backup: kept\nthe server runs: tarmac ")
    assert "to go back: tarmac server stop; install tarmac " in done.stderr
    assert f"tarmac server restore {shell.directory / 'kept'}" in done.stderr
    assert shell.json("server", "status")["pid"] != before
    gate.write_text("\n")
    shell.tarmac("wait", "next", code=0)
    assert [each["outcome"] for each in shell.json("show", "live")["attempts"]] == ["completed"]


def test_an_upgrade_that_fails_says_how_to_go_back(shell: Shell) -> None:
    shell.tarmac("run", "--name", "done", "--", "echo", "long done", code=0)
    with closing(sqlite3.connect(shell.home / "tarmac.db", isolation_level=None)) as database:
        database.execute(NEWER)
    refused = shell.tarmac("server", "upgrade", "kept", code=1).stderr
    assert "was used by a newer tarmac" in refused
    assert f"mv {shell.home} {shell.home}.new; tarmac server restore" in refused
    assert (shell.directory / "kept/manifest.json").exists()
    (shell.home / "settings.toml").write_text("lisen = 1\n")
    assert "lisen" in shell.tarmac("server", "upgrade", "again", code=2).stderr
    (shell.home / "server.sock").unlink(missing_ok=True)


def _kept(shell: Shell) -> list[Any]:
    """The records of people, without what requests and attempts after a backup change."""
    tokens = shell.json("tokens", "ls", "--user", "bob")["tokens"]
    ledger = shell.json("credits", "ledger", "--user", "bob")["entries"]
    audit = shell.json("audit", "--limit", "1000")["audit"]
    return [
        *(shell.json(*name.split()) for name in ("users ls", "limits ls", "organisations ls", "secret ls")),
        [{**token, "last_used_at": None} for token in tokens],
        [entry for entry in ledger if entry["kind"] != "charge"],
        [entry for entry in audit if entry["user"] == "carol"],
    ]


def test_a_restored_server_rents_under_another_tag(shell: Shell) -> None:
    """The server of the original may still have machines: nobody else deletes these."""
    commands = [f"--set={name}={word}" for name, word in (("create", "false"), ("delete", "true"))]
    shell.tarmac("providers", "add", "lab", "--kind", "machines", "--set", "list=echo []", *commands, code=0)
    [before] = shell.json("providers", "ls")["providers"]
    shell.tarmac("server", "backup", "copy", code=0)
    again = Shell(shell.home.with_name("again"), shell.directory)
    again.tarmac("server", "restore", "copy", code=0)
    shell.tarmac("server", "stop", code=0)
    shell.home.rename(shell.home.with_name("lost"))
    try:
        [after] = again.json("providers", "ls")["providers"]
    finally:
        again.close()
    assert after["owner"] not in ("", before["owner"])
    assert {**after, "owner": before["owner"]} == before

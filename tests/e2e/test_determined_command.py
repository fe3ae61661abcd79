"""Determined's own command, as PyPI has it, against a server of tarmac (D9 to D15; `make determined`)."""

from __future__ import annotations

import csv
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.client import Client
from tarmac.model.actor import Action
from tarmac.model.people.account import AccountSettings

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ("0.23.4", "0.34.0", "0.38.1")
LIMIT_S = 180.0

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(10 * LIMIT_S)]

GRID = """\
name: grid
entrypoint: python3 train.py
hyperparameters: {lr: {type: categorical, vals: [0.1, 0.2]}}
searcher: {name: grid, metric: loss, max_length: {batches: 2}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""
ONE = """\
name: one
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 2}}
resources: {slots_per_trial: 2}
max_restarts: 0
"""
SCRIPT = """\
import json, os
import tarmac
values = json.loads(os.environ["DET_HPARAMS"])
print("trial", os.environ["DET_TRIAL_ID"], "of experiment", os.environ["DET_EXPERIMENT_ID"], values)
print("[rank=1] WARNING: soon done")
tarmac.report(step=1, loss=values.get("lr", 1.0), group="validation")
with open(os.path.join(os.environ["CHECKPOINT_ARTIFACT_PATH"], "state.txt"), "w") as file:
    file.write("1")
"""
WAITING = """\
name: NAME
entrypoint: while true; do sleep 1; done
searcher: {name: single, metric: loss, max_length: {batches: 2}}
resources: {slots_per_trial: 1}
preemption_timeout: 1
"""
STUBBORN = "trap '' TERM; while true; do sleep 1; done"


def tarmac(det: Det, *arguments: str) -> str:
    """What tarmac's own command prints of the same server."""
    command = [sys.executable, "-m", "tarmac.cli", *arguments]
    environment = {**os.environ, "TARMAC_HOME": str(det.directory / "home")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


class Det:
    """The command, of a user with a home of its own, against one server."""

    def __init__(self, directory: Path, url: str, release: str) -> None:
        self.directory = directory
        self.release = release
        self._command = ROOT / ".venv-determined" / release / "bin/det"
        self._environment = {**os.environ, "HOME": str(directory), "DET_MASTER": url}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found = subprocess.run(
            [self._command, *arguments],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert found.returncode == code, found.stdout + found.stderr
        return found.stdout + found.stderr

    def typing(self, *arguments: str, typed: str, code: int = 0) -> str:
        """The command, with a password for each of its prompts."""
        found = subprocess.run(
            [self._command, *arguments],
            cwd=self.directory,
            env=self._environment,
            input=f"{typed}\n{typed}\n",
            start_new_session=True,  # without a terminal, `getpass` reads standard input
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert found.returncode == code, found.stdout + found.stderr
        return found.stdout + found.stderr

    def as_user(self, **variables: str) -> Det:
        """The same command with further variables."""
        other = Det(self.directory, self._environment["DET_MASTER"], self.release)
        other._environment |= variables
        return other


@pytest.fixture(params=RELEASES)
def det(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Det]:
    yield from served_to(str(request.param), tmp_path, "[[local]]\nslots = 2\n")


@pytest.fixture(params=RELEASES[:2])
def preempting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Det]:
    """On one slot, with preemption; 0.38.1 moves no job ahead of another any more."""
    rules = '[pools.default]\npreemption = true\nguaranteed = "0s"\n'
    yield from served_to(str(request.param), tmp_path, f"[[local]]\nslots = 1\n{rules}")


def served_to(release: str, tmp_path: Path, settings: str) -> Iterator[Det]:
    if not (ROOT / ".venv-determined" / release / ".command").exists():
        pytest.skip("the package `determined` is not installed: make determined")
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    home, context = tmp_path / "home", tmp_path / "context"
    home.mkdir(mode=0o700)
    context.mkdir()
    (context / "train.py").write_text(SCRIPT)
    (tmp_path / "extra.txt").write_text("more\n")
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "stubborn.yaml").write_text(ONE.replace("python3 train.py", f'"{STUBBORN}"'))
    (tmp_path / "wrong.yaml").write_text(GRID.replace("grid, metric", "gird, metric"))
    (home / "settings.toml").write_text(f'[determined]\nlisten = "{address}"\n{settings}')
    client = Client(home=home)
    client.version()  # starts the server, and answers once that listens
    try:
        yield Det(tmp_path, f"http://{address}", release)
    finally:
        client.stop_server()
        client.close()


def test_an_experiment_from_its_creation_to_its_end(det: Det) -> None:
    followed = det("experiment", "create", "grid.yaml", "context", "-f")
    assert "Created experiment 1" in followed
    assert "trial 1 of experiment 1 {'lr':" in followed
    det("experiment", "wait", "1", "--polling-interval", "1")
    assert "COMPLETED" in det("experiment", "list")
    assert det("experiment", "list-trials", "1").count("COMPLETED") == 2
    assert '"loss"' in det("trial", "describe", "2")
    assert det("trial", "logs", "1", "--tail", "1").count("WARNING: soon done") == 1
    assert det("trial", "logs", "1", "--rank-id", "1").count("||") == 1
    assert "||" not in det("trial", "logs", "1", "--timestamp-before", "2020-01-01T00:00:00Z")
    listed = det("experiment", "list-checkpoints", "1", "--csv")
    uuids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", listed)
    assert len(uuids) == 2
    det("checkpoint", "download", uuids[0], "--mode", "master", "-o", "kept")
    assert (det.directory / "kept/state.txt").read_text() == "1"
    assert "deletion" in det("checkpoint", "delete", uuids[0], "--yes").lower()
    assert uuids[0] not in det("experiment", "list-checkpoints", "1", "--csv")
    det("experiment", "download-model-def", "1")
    for verb in ("describe", "show"):
        assert "2 trials begun" in tarmac(det, "experiment", verb, "1")
    assert "lr=0.2" in tarmac(det, "show", "grid-1", "--as", "determined"), "a grid begins with its last"
    det("experiment", "archive", "1")
    assert "grid" not in det("experiment", "list")
    det("experiment", "unarchive", "1")
    assert "determined" in det("resources", "raw", "2026-01-01T00:00:00", "2100-01-01T00:00:00")
    det("experiment", "delete", "1", "--yes")
    det("experiment", "describe", "1", code=1)


def test_what_is_changed_while_it_waits(det: Det) -> None:
    det("experiment", "create", "grid.yaml", "context", "--paused", "--config", "max_restarts=2")
    det("experiment", "set", "name", "1", "renamed")
    det("experiment", "set", "description", "1", "of two values")
    det("experiment", "label", "add", "1", "red")
    det("experiment", "set", "max-slots", "1", "1")
    det("experiment", "set", "priority", "1", "7")
    det("experiment", "set", "weight", "1", "2")
    described = det("experiment", "describe", "1", "--csv")
    assert "PAUSED,0.0%" in described
    assert ",renamed,of two values,False,default,red" in described
    config = det("experiment", "config", "1")
    assert all(line in config for line in ("max_slots: 1", "priority: 7", "max_restarts: 2"))
    det("experiment", "activate", "1")
    det("experiment", "wait", "1", "--polling-interval", "1")


def test_the_queue_the_cluster_and_a_kill(det: Det) -> None:
    det("experiment", "create", "stubborn.yaml", "context")
    det("experiment", "create", "one.yaml", "context")
    jobs = [line.split(",") for line in det("job", "list", "--csv").splitlines() if "TYPE_EXPERIMENT" in line]
    assert [(job[0], job[3]) for job in jobs] == [("0", "one (1)"), ("1", "one (2)")]
    det("job", "update", jobs[1][1], "--priority", "3")
    assert "one (2)" in next(
        each for each in det("job", "list", "--csv").splitlines() if each.startswith("0,")
    )
    if det.release != "0.38.1":  # it has no such option any more
        det("job", "update", jobs[1][1], "--behind-of", jobs[0][1])
    det("job", "update-batch", f"{jobs[1][1]}.priority=50")
    assert "node1" in det("agent", "list")
    assert det("slot", "list", "--csv").count(",True,") == 2
    assert "Trial 1 (Experiment 1)" in det("task", "list")
    det("experiment", "cancel", "1")
    assert "STOPPING_CANCELED" in det("experiment", "list")
    det("experiment", "kill", "1")
    det("experiment", "wait", "2", "--polling-interval", "1")
    assert "CANCELED" in det("experiment", "list")
    det("slot", "disable", "node1", "1")
    assert det("slot", "list", "--csv").count(",False,False,") == 1
    det("slot", "enable", "node1", "1")
    det("agent", "disable", "node1")
    det("agent", "enable", "node1")


def test_the_workflow_of_the_document(preempting: Det) -> None:
    """D13, D14: list, update, list, update-batch, list give the document's three tables."""
    det = preempting
    for name in ("first_job", "second_job"):
        (det.directory / "waiting.yaml").write_text(WAITING.replace("NAME", name))
        det("experiment", "create", "waiting.yaml", "context")
    first, second = ("TYPE_EXPERIMENT", "first_job"), ("TYPE_EXPERIMENT", "second_job")
    held, waits = ("1/1", "STATE_SCHEDULED", "determined"), ("0/1", "STATE_QUEUED", "determined")
    ids = wait_for_table(det, [("0", *first, "42", *held), ("1", *second, "42", *waits)])
    det("job", "update", ids[1], "--ahead-of", ids[0])
    wait_for_table(det, [("0", *second, "42", *held), ("1", *first, "42", *waits)])
    det("job", "update-batch", f"{ids[1]}.priority=1", f"{ids[0]}.priority=1")
    wait_for_table(det, [("0", *second, "1", *held), ("1", *first, "1", *waits)])
    for number in ("1", "2"):
        det("experiment", "kill", number)


def wait_for_table(det: Det, expected: list[tuple[str, ...]]) -> list[str]:
    """Wait until `det job list` is this but for ids and times; the ids in its order."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        rows = [row for row in csv.reader(det("job", "list", "--csv").splitlines()) if len(row) == 9]
        found = [
            (number, kind, name.partition(" (")[0], priority, slots, state, user)
            for number, _, kind, name, priority, _, slots, state, user in rows[1:]
        ]
        if found == expected:
            return [row[1] for row in rows[1:]]
        assert time.monotonic() < deadline, rows


def test_questions_and_refusals(det: Det) -> None:
    assert "determined" in det("user", "whoami")
    assert "determined" in det("user", "list")
    assert "tarmac" in det("master", "info")
    assert "priority" in det("master", "config")
    assert "answering" in det("master", "logs", "--tail", "3")
    assert "2 " in det("preview-search", "grid.yaml")
    assert "did you mean 'grid'" in det("experiment", "create", "wrong.yaml", "context", code=1)
    assert "there is no job" in det("job", "update", "nothing", "--priority", "3", code=1)
    det("trial", "logs", "9", code=1)
    det("notebook", "list", code=1)


def test_accounts_and_projects(det: Det) -> None:
    """N15: the accounts of the server, of an admin, a member and a service account."""
    with Client(home=det.directory / "home", start=False) as client:
        client.set_user("olga", AccountSettings(), password="Olgas password 1")
        client.set_user("nightly", AccountSettings(service=True))
        token = client.add_token("runs", user="nightly", scopes=(Action.SUBMIT,), lifetime_s=None).text
    det.typing("user", "login", "olga", typed="Olgas password 1")
    assert "'olga'" in det("user", "whoami")
    det.typing("user", "create", "bob", typed="Bobs password 22")
    if det.release == "0.23.4":  # it asks for none
        det.typing("user", "change-password", "bob", typed="Bobs password 22")
    listed = det("user", "list")
    assert all(name in listed for name in ("olga", "bob", "nightly"))
    assert "vision" in det("project", "create", "Uncategorized", "vision")
    assert "olga (admin)" in det("project", "describe", "Uncategorized", "vision")
    assert "one workspace" in det("workspace", "create", "lab", code=1)
    assert "Uncategorized" in det("workspace", "list")

    assert "wrong" in det.typing("user", "login", "bob", typed="Bobs password 23", code=1)
    det.typing("user", "login", "bob", typed="Bobs password 22")
    assert "Created experiment 1" in det("experiment", "create", "one.yaml", "context")
    assert "may not manage" in det("user", "deactivate", "olga", code=1)
    (det.directory / "inside.yaml").write_text(ONE + "workspace: Uncategorized\nproject: vision\n")
    refused = det("experiment", "create", "inside.yaml", "context", code=1)
    assert "bob may not submit runs in project vision" in refused
    det("user", "logout")

    nightly = det.as_user(DET_USER="nightly", DET_USER_TOKEN=token)
    assert "'nightly'" in nightly("user", "whoami")
    assert "Created experiment 2" in nightly("experiment", "create", "one.yaml", "context", "--paused")
    assert "its scopes are" in nightly("experiment", "kill", "2", code=1)
    det.typing("user", "login", "nightly", typed=token)
    assert "'nightly'" in det("user", "whoami")
    det("user", "logout")

    det.typing("user", "login", "olga", typed="Olgas password 1")
    det("user", "deactivate", "bob")
    assert "wrong" in det.typing("user", "login", "bob", typed="Bobs password 22", code=1)
    det("user", "activate", "bob")
    det.typing("user", "login", "bob", typed="Bobs password 22")
    det("experiment", "wait", "1", "--polling-interval", "1")

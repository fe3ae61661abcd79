"""MLflow 3 from PyPI: its command with our backend, its server as a destination (`make mlflow`; K10)."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from mlflow_labs import ENVIRONMENT, LOSSES, PASSWORD, Tracking, User, started, user_of
from shell import LIMIT_S, LOOK_AGAIN_S
from slurm_clusters import Missing, running_slurm
from unicore_sites import serving

AT_THE_SITE = json.dumps({"file": "backend.yaml", "cluster": "site"})

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(8 * LIMIT_S),
    pytest.mark.skipif(not ENVIRONMENT.exists(), reason="MLflow was not asked for: make mlflow"),
]


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracking]:
    with started(tmp_path_factory.mktemp("mlflow") / "tracking") as made:
        yield made


@pytest.fixture
def user(tracking: Tracking, tmp_path: Path) -> Iterator[User]:
    tracking.forget()
    with user_of(tmp_path, tracking) as made:
        yield made


def test_a_configuration_of_mantik_rehearsed(user: User) -> None:
    """The command returns at once; values are quoted; the run of MLflow has its parameters and metrics."""
    config = '{"file": "backend.yaml", "rehearse": "2x1"}'
    said = user.mlflow("--backend-config", config, "-P", "rounds=3", "--experiment-name", "mnist").stderr
    found = user.tracking.until("FINISHED")
    ours = user.ours()
    assert f"=== Run (ID '{found['run_id']}') is the run {ours['id']} of tarmac ===" in said
    assert found["params"] == {"rounds": "3", "note": "'a b; echo $HOME'"}, "as MLflow itself has them"
    assert found["tags"]["mlflow.project.backend"] == "tarmac"
    assert found["tags"]["tarmac.run"] == ours["id"]
    assert found["experiment_id"] != "0"
    assert user.tracking.points(found["run_id"], "loss") == LOSSES
    assert f"note: a b; echo $HOME run: {found['run_id']}" in user.shell.tarmac("logs", ours["id"]).stdout
    assert (ours["name"], len(user.shell.json("show", ours["id"])["attempts"][0]["nodes"])) == ("digits", 2)


def test_fields_of_a_run_file_on_the_users_own_cluster(user: User) -> None:
    """In a file of JSON, and without any; a command that fails fails the run."""
    user.shell.write("config.json", '{"slots": 2, "name": "two"}')
    user.mlflow("--backend-config", "config.json", "-P", "rounds=1", "-P", "more=x y")
    assert user.tracking.until("FINISHED")["params"]["more"] == "'x y'"
    assert (user.ours()["name"], user.ours()["slots"]) == ("two", 2)
    user.mlflow("--entry-point", "fail")
    user.shell.until("ls", said="failed")
    deadline = time.monotonic() + LIMIT_S
    while [run["status"] for run in user.tracking.runs()] != ["FINISHED", "FAILED"]:
        assert time.monotonic() < deadline
        Event().wait(LOOK_AGAIN_S)


def test_what_is_wrong_is_said_before_anything_is_made(user: User) -> None:
    """A missing parameter in MLflow's own words; a file of a site in ours."""
    said = user.mlflow(code=1).stderr
    assert "=== No value given for missing parameters: 'rounds' ===" in said
    said = user.mlflow("-P", "rounds=1", "--backend-config", '{"file": "backend.yml"}', code=1).stderr
    assert "did you mean" in said
    assert "backend.yaml" in said
    said = user.mlflow("-P", "rounds=1", "--backend-config", '{"slots": "many"}', code=1).stderr
    assert "digits.json:2:12: slots: a number of slots from 1" in said
    assert user.tracking.runs() == []
    user.mlflow("-P", "rounds=1", "--backend-config", '{"slots": 100000}', code=1)
    assert user.tracking.one()["status"] == "FAILED", "only the server knew"
    assert user.shell.json("ls")["runs"] == []


def test_a_tracking_store_that_nodes_do_not_reach_is_refused(user: User) -> None:
    user.variables["MLFLOW_TRACKING_URI"] = f"sqlite:///{user.shell.directory}/mlflow.db"
    assert "needs the URL of an `mlflow server`" in user.mlflow("-P", "rounds=1", code=1).stderr


def test_mlflow_dies_and_its_run_ends(user: User) -> None:
    """So it does if the server of tarmac dies in the middle, and every value is there once."""
    gate = user.shell.gate()
    driver = user.drive("wait", {"file": "backend.yaml", "rehearse": "2x1", "env": {"GATE": str(gate)}})
    user.shell.until("ls", said="digits")
    run_id = user.tracking.until("RUNNING")["run_id"]
    user.shell.until("metrics", user.ours()["id"], said="loss")
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    pid = user.shell.json("server", "status")["pid"]
    os.kill(pid, signal.SIGKILL)
    gate.write_text("on\n")
    user.shell.until("ls", said="completed")
    assert user.tracking.until("FINISHED")["run_id"] == run_id
    assert user.tracking.points(run_id, "loss") == LOSSES


def test_a_tracking_server_that_was_away_gets_everything(user: User) -> None:
    gate = user.shell.gate()
    config = json.dumps({"env": {"GATE": str(gate)}})
    user.mlflow("-P", "rounds=3", "--backend-config", config)
    run_id = user.tracking.until("RUNNING")["run_id"]
    user.tracking.stop()
    gate.write_text("on\n")
    user.shell.tarmac("wait", user.ours()["id"], code=0)
    user.shell.until("show", user.ours()["id"], said="127.0.0.1: Connection refused")
    user.tracking.start()
    assert user.tracking.until("FINISHED")["run_id"] == run_id
    assert user.tracking.points(run_id, "loss") == LOSSES


def test_a_run_is_waited_for_and_cancelled(user: User) -> None:
    assert user.drive("wait", {"slots": 1}).communicate(timeout=LIMIT_S)[0].endswith("\nFINISHED\n")
    first = user.tracking.one()
    assert user.tracking.points(first["run_id"], "loss") == LOSSES, "its metrics are there when it has ended"
    gate = user.shell.gate()
    driver = user.drive("cancel", {"env": {"GATE": str(gate)}})
    assert driver.stdout is not None
    assert driver.stdout.readline() in ("SCHEDULED\n", "RUNNING\n")
    assert driver.communicate("\n", timeout=LIMIT_S)[0].endswith("KILLED\n")
    assert [
        run["outcome"] for run in user.shell.json("ls", "--all")["runs"] if run["outcome"] != "completed"
    ] == ["stopped"]
    deadline = time.monotonic() + LIMIT_S
    while sorted(run["status"] for run in user.tracking.runs()) != ["FINISHED", "KILLED"]:
        assert time.monotonic() < deadline, user.tracking.runs()
        Event().wait(LOOK_AGAIN_S)


def test_any_run_reports_to_mlflow(user: User) -> None:
    """One that only names the tracking server: it has a run of MLflow once it reports something."""
    where = ("--env", f"MLFLOW_TRACKING_URI={user.tracking.url}", "--env", "MLFLOW_EXPERIMENT_NAME=mnist")
    user.shell.tarmac("run", "--name", "silent", *where, "--", "true", code=0)
    line = "import tarmac\nfor step in range(3): tarmac.report(step=step, loss=1 / (step + 1))"
    user.shell.tarmac("run", "--name", "plain", *where, "--", "python3", "-c", line, code=0)
    found = user.tracking.until("FINISHED")
    assert found["run_name"] == "plain"
    assert found["experiment_id"] != "0"
    assert user.tracking.points(found["run_id"], "loss") == LOSSES


def test_credentials_travel_as_secrets(tmp_path: Path) -> None:
    """MLflow's own login by name and password: the job logs with it, the server too, and no file has it."""
    login = {"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": PASSWORD}
    with (
        started(tmp_path / "tracking", "--app-name", "basic-auth", login=f"admin:{PASSWORD}") as tracking,
        user_of(tmp_path, tracking, login) as user,
    ):
        user.mlflow("--entry-point", "logs")
        found = user.tracking.until("FINISHED")
        assert user.tracking.points(found["run_id"], "own") == [(0, 7.0)]
        assert found["tags"]["tarmac.run"] == user.ours()["id"], "which the server set"
        port = user.tracking.port
        assert [each["name"] for each in user.shell.json("secret", "ls")["secrets"]] == [
            f"mlflow-tracking-password-127.0.0.1-{port}"
        ]
        files = [path for path in user.shell.home.rglob("*") if path.is_file()]
        assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The variables of a Slurm of two nodes."""
    try:
        with running_slurm(tmp_path / "slurm", cpus_per_node=2) as variables:
            monkeypatch.setenv("SLURM_CONF", variables["SLURM_CONF"])
            monkeypatch.delenv("TMPDIR", raising=False)
            yield variables
    except Missing as missing:
        pytest.skip(str(missing))


def add_cluster(user: User, *settings: str) -> None:
    """The cluster `site`, with the queue of the configuration."""
    user.shell.tarmac("clusters", "add", "site", *settings, "--set=pools.batch.partition=batch", code=0)


@pytest.mark.usefixtures("slurm")
def test_a_configuration_of_mantik_on_a_slurm(tmp_path: Path, user: User) -> None:
    """A job of two nodes, whose script has no credentials: they come sealed, and the job opens them."""
    token = "t0ken-of-the-tracking-server"
    user.variables["MLFLOW_TRACKING_TOKEN"] = token
    shared = tmp_path / "shared"
    add_cluster(user, "--engine=slurm", f"--set=directory={shared}")
    user.mlflow("--backend-config", AT_THE_SITE, "-P", "rounds=3")
    found = user.tracking.until("FINISHED")
    assert user.tracking.points(found["run_id"], "loss") == LOSSES
    log = user.shell.tarmac("logs", user.ours()["id"]).stdout
    assert f"run: {found['run_id']} token: {len(token)} nodes: 2" in log
    files = [path for root in (shared, user.shell.home) for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if token.encode() in path.read_bytes()] == []


def test_a_configuration_of_mantik_at_a_site(slurm: dict[str, str], tmp_path: Path, user: User) -> None:
    """K10: a job of two nodes behind a UNICORE, submitted with the login of the user."""
    with serving(tmp_path / "far", **slurm) as served:
        place = served.site.users["ada"].directory / "tarmac"
        settings = {
            "user": "ada",
            "directory": place,
            "ca": served.ca,
            "python": sys.executable,
            "poll": "1s",
        }
        given = [f"--set={name}={value}" for name, value in settings.items()]
        user.shell.tarmac("secret", "set", "site-password", stdin="pass of ada", code=0)
        password = "--credential=password=site-password"
        add_cluster(user, "--engine=unicore", f"--url={served.url}", *given, password)
        user.mlflow("--backend-config", AT_THE_SITE, "-P", "rounds=3")
        found = user.tracking.until("FINISHED")
        assert user.tracking.points(found["run_id"], "loss") == LOSSES
        ours = user.ours()
        assert "nodes: 2" in user.shell.tarmac("logs", ours["id"]).stdout
        [attempt] = user.shell.json("show", ours["id"])["attempts"]
        assert (ours["outcome"], len(attempt["nodes"])) == ("completed", 2)

"""MLflow 3 as PyPI has it: its command with our backend, its server as a destination (`make mlflow`; K10)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from shell import LIMIT_S, LOOK_AGAIN_S, Result, Shell

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-mlflow"
"""What `make mlflow` makes: MLflow brings half a hundred packages."""

PROJECT = """\
name: digits
entry_points:
  main:
    parameters:
      rounds: {type: float}
      note: {type: string, default: "a b; echo $HOME"}
    command: "python3 train.py {rounds} {note}"
  fail:
    command: "python3 train.py 1 x && exit 3"
  logs:
    command: "python3 logs.py"
"""
TRAIN = """\
import os, sys, tarmac

gate = os.environ.get("GATE")
for step in range(int(float(sys.argv[1]))):
    tarmac.report(step=step, loss=1 / (step + 1))
    if gate and step == 1:
        open(gate).read()
print("note:", sys.argv[2], "run:", os.environ["MLFLOW_RUN_ID"])
"""
LOGS = """\
import mlflow

with mlflow.start_run():
    mlflow.log_metric("own", 7)
"""
BACKEND = """\
UnicoreApiUrl: https://unicore.example.org/rest/core
Environment:
  Variables:
    GREETING: hello
Resources:
  Queue: batch
  Nodes: 2
"""
DRIVE = """\
import json, sys, mlflow
from mlflow.projects.backend.loader import load_backend

assert type(load_backend("tarmac")).__name__ == "TarmacBackend"
config = json.loads(sys.argv[2])
submitted = mlflow.projects.run(
    ".", backend="tarmac", backend_config=config, parameters={"rounds": 3}, synchronous=sys.argv[1] == "wait"
)
print(submitted.get_status(), flush=True)
if sys.argv[1] == "cancel":
    sys.stdin.readline()
    submitted.cancel()
    print(submitted.get_status(), flush=True)
"""

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.timeout(3 * LIMIT_S),
    pytest.mark.skipif(not ENVIRONMENT.exists(), reason="MLflow was not asked for: make mlflow"),
]


class Tracking:
    """A real tracking server on a port of its own, which can be ended and started again."""

    def __init__(self, root: Path, *options: str, login: str | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._root, self._options, self._login = root, options, login
        self._earlier: set[str] = set()
        self._root.mkdir()

    def start(self) -> None:
        store = f"sqlite:///{self._root}/mlflow.db"
        own = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        self._log = (self._root / "log").open("ab")
        self._process = subprocess.Popen(
            [
                *(ENVIRONMENT / "bin" / "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)),
                *("--workers", "1", "--backend-store-uri", store, *self._options),
                *("--artifacts-destination", str(self._root / "artifacts")),
            ],
            cwd=self._root,
            env={
                **own,
                "MLFLOW_FLASK_SERVER_SECRET_KEY": "of a test",
                "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD,
            },
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self._root / "log").read_text()[-3000:]
                Event().wait(LOOK_AGAIN_S)

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def ask(self, endpoint: str, **fields: Any) -> dict[str, Any]:
        """Call it, as the tracking client of MLflow does."""
        query = "&".join(f"{name}={value}" for name, value in fields.items())
        post = endpoint.endswith("search")
        url = f"{self.url}/api/2.0/mlflow/{endpoint}" + ("" if post else f"?{query}")
        request = urllib.request.Request(url, data=json.dumps(fields).encode() if post else None)
        request.add_header("Content-Type", "application/json")
        if self._login is not None:
            request.add_header("Authorization", f"Basic {b64encode(self._login.encode()).decode()}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def forget(self) -> None:
        """Leave its present runs out from now on."""
        self._earlier |= {run["run_id"] for run in self.runs()}

    def runs(self) -> list[dict[str, Any]]:
        """Its runs, oldest first, each with its id, name, status, tags and parameters."""
        listed = self.ask("experiments/search", max_results=100)["experiments"]
        ids = [each["experiment_id"] for each in listed]
        found = self.ask("runs/search", experiment_ids=ids, order_by=["attributes.start_time ASC"]).get(
            "runs", []
        )
        return [
            {
                **{
                    name: each["info"].get(name) for name in ("run_id", "run_name", "status", "experiment_id")
                },
                **{part: pairs(each["data"].get(part, [])) for part in ("tags", "params")},
            }
            for each in found
            if each["info"]["run_id"] not in self._earlier
        ]

    def one(self) -> dict[str, Any]:
        [found] = self.runs()
        return found

    def until(self, *words: str) -> dict[str, Any]:
        """Its one run, once its status is one of these words."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := self.runs()) or found[0]["status"] not in words:
            assert time.monotonic() < deadline, found
            Event().wait(LOOK_AGAIN_S)
        [run] = found
        return run

    def points(self, run_id: str, name: str) -> list[tuple[int, float]]:
        """Every value of a metric in the order of its steps; a value that was logged twice is there twice."""
        found = self.ask("metrics/get-history", run_id=run_id, metric_key=name).get("metrics", [])
        return sorted((int(each.get("step", 0)), each["value"]) for each in found)


PASSWORD = "correct horse battery"
LOSSES = [(0, 1.0), (1, 0.5), (2, 1 / 3)]


def pairs(listed: list[dict[str, str]]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in listed}


class User:
    """A user of MLflow with a project and a home of tarmac."""

    def __init__(self, shell: Shell, tracking: Tracking, variables: Mapping[str, str] | None = None) -> None:
        self.shell, self.tracking = shell, tracking
        self._variables = {"MLFLOW_TRACKING_URI": tracking.url, **(variables or {})}
        for name, text in (("MLproject", PROJECT), ("train.py", TRAIN), ("logs.py", LOGS)):
            shell.write(name, text)
        shell.write("backend.yaml", BACKEND)
        shell.write("drive.py", DRIVE)

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        path = f"{ENVIRONMENT / 'bin'}:{own['PATH']}"
        return {**own, **self.shell.environment(), **self._variables, "PATH": path}

    def mlflow(self, *arguments: str, code: int = 0) -> Result:
        """Type `mlflow run .` with our backend."""
        words = [ENVIRONMENT / "bin" / "mlflow", "run", ".", "--backend", "tarmac", *arguments]
        result = subprocess.run(
            words,
            cwd=self.shell.directory,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert result.returncode == code, result.stderr
        assert "Traceback" not in result.stderr, result.stderr
        return result

    def drive(self, how: str, config: dict[str, Any]) -> subprocess.Popen[str]:
        """Start a program that calls `mlflow.projects.run`."""
        return subprocess.Popen(
            [ENVIRONMENT / "bin" / "python", "drive.py", how, json.dumps(config)],
            cwd=self.shell.directory,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ours(self) -> dict[str, Any]:
        """The one run of tarmac."""
        [found] = self.shell.json("ls")["runs"]
        return dict(found)


@contextmanager
def started(root: Path, *options: str, login: str | None = None) -> Iterator[Tracking]:
    tracking = Tracking(root, *options, login=login)
    tracking.start()
    try:
        yield tracking
    finally:
        tracking.stop()


@contextmanager
def user_of(root: Path, tracking: Tracking, variables: Mapping[str, str] | None = None) -> Iterator[User]:
    shell = Shell(root / "home", root / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    try:
        yield User(shell, tracking, variables)
    finally:
        shell.close()


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
    user._variables["MLFLOW_TRACKING_URI"] = f"sqlite:///{user.shell.directory}/mlflow.db"
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

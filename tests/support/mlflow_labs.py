"""A real MLflow for tests: its tracking server, and a user who types its command (`make mlflow`)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

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
token, nodes = len(os.environ.get("MLFLOW_TRACKING_TOKEN", "")), os.environ.get("SLURM_NNODES")
print("note:", sys.argv[2], "run:", os.environ["MLFLOW_RUN_ID"], "token:", token, "nodes:", nodes)
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
        deadline = time.monotonic() + 3 * LIMIT_S
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
        self.variables = {"MLFLOW_TRACKING_URI": tracking.url, **(variables or {})}
        for name, text in (("MLproject", PROJECT), ("train.py", TRAIN), ("logs.py", LOGS)):
            shell.write(name, text)
        shell.write("backend.yaml", BACKEND)
        shell.write("drive.py", DRIVE)

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        path = f"{ENVIRONMENT / 'bin'}:{own['PATH']}"
        return {**own, **self.shell.environment(), **self.variables, "PATH": path}

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
            timeout=3 * LIMIT_S,
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

"""A run's reports and its end reach its tracking server, through the death of the server of tarmac (K10)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from threading import Event

from shell import LIMIT_S, LOOK_AGAIN_S, Shell
from tracking_server import MlflowServer, tracking_server

TRAIN = """
import os, tarmac
for step in range(5):
    tarmac.report(step=step, loss=step / 2)
    if step == 2:
        open(os.environ["GATE"]).read()
"""


def test_a_run_reports_through_the_death_of_its_server(shell: Shell) -> None:
    gate = shell.gate()
    with tracking_server() as mlflow:
        where = ("--env", f"MLFLOW_TRACKING_URI={mlflow.url}", "--env", f"GATE={gate}")
        command = ("run", "--name", "digits", "--detach", *where, "--", "python3", "-c", TRAIN)
        run = shell.tarmac(*command, code=0).stdout.strip()
        until(mlflow, lambda: len(mlflow.metrics.get("m1", [])) == 3)
        os.kill(shell.json("server", "status")["pid"], signal.SIGKILL)
        gate.write_text("on")
        shell.tarmac("wait", run, code=0)
        until(mlflow, lambda: mlflow.runs["m1"]["status"] == "FINISHED")
        assert mlflow.made_for(run) == "m1"
        assert [(name, at, value) for name, at, _, value in mlflow.metrics["m1"]] == [
            ("loss", at, str(at / 2)) for at in range(5)
        ]
        assert f"webhook at {mlflow.url.split('/')[2]}" in shell.tarmac("show", run).stdout


def until(mlflow: MlflowServer, holds: Callable[[], bool]) -> None:
    """Until something holds of a tracking server."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, (mlflow.runs, mlflow.metrics)
        Event().wait(LOOK_AGAIN_S)

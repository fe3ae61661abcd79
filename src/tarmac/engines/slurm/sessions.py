"""Sessions beside workers of a job: the far end is a step of that job, on the node of the worker.

Its standard streams are the connection: `srun` passes them on, and ssh does so to another machine. Called by
`SlurmEngine`.
"""

import os
import socket

from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.slurm import observing
from tarmac.engines.slurm.commands import ENVIRONMENT, Commands
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.progress import WorkerStatus
from tarmac.node.session import frames
from tarmac.node.starting import Installation
from tarmac.node.wire.frames import pack_document

STEP = (
    *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none"),
    *("--unbuffered", "--quiet", "--export=ALL"),
)
"""Overlaps the runner, which has all resources of the job; passes on each byte at once."""

OVER = ("invalid job id", "already completing or completed", "expired", "job is not running")
"""srun's messages for ended jobs, by version."""


def open_session(
    commands: Commands, installation: Installation, view: AttemptView, worker: WorkerStatus
) -> int:
    """Like `OpensSessions`, for a worker with a pid."""
    job_id = observing.job_id(view.directory)
    if job_id is None:
        raise Refused("the worker has not started")
    mark = f"tarmac-{os.urandom(12).hex()}"
    try:
        place = [f"--jobid={job_id}", *_component(commands, job_id, worker.node), f"--nodelist={worker.node}"]
        argv = [*STEP, *place, *installation.session_on_streams(mark)]
        descriptor = commands.host.stream(argv, variables=ENVIRONMENT, mark=mark)
    except Unavailable as error:
        if _is_over(view) or any(words in error.message.lower() for words in OVER):
            raise Refused("the worker has ended") from None
        raise
    with socket.socket(fileno=descriptor) as near:
        try:
            near.sendall(pack_document(frames.WORKER, pid=worker.pid, token=view.token))
        except OSError as error:
            raise Unavailable(f"the session cannot be started: {error}") from None
        return near.detach()


def _component(commands: Commands, job_id: str, node: str) -> list[str]:
    """The option for the component of a heterogeneous job that has the node. Raises Unavailable."""
    lines = commands.query(["squeue", "--noheader", f"--jobs={job_id}", "--format=%i|%N"])
    components = [line.strip().split("|", 1) for line in lines.splitlines() if "+" in line and "|" in line]
    for number, nodes in components:
        if node in commands.query(["scontrol", "show", "hostnames", nodes]).split():
            return [f"--het-group={number.partition('+')[2]}"]
    return []


def _is_over(view: AttemptView) -> bool:
    """Whether the runners of all nodes have ended: a step just starting ends with their job."""
    with view.lock:
        view.refresh()
        return view.over

"""Every variable that a worker finds in its environment, declared once.

`launch.environment` and the runner set them; docs/variables.md lists them (a test compares the two).
"""

from __future__ import annotations

from tarmac.model.variables import Giver, Variable

RUN_ID = "TARMAC_RUN_ID"
RUN_NAME = "TARMAC_RUN_NAME"
ATTEMPT = "TARMAC_ATTEMPT"
ROLE = "TARMAC_ROLE"
REPLICA = "TARMAC_REPLICA"
REPLICAS = "TARMAC_REPLICAS"
WORKER = "TARMAC_WORKER"
WORKERS = "TARMAC_WORKERS"
NODE_RANK = "NODE_RANK"
NNODES = "NNODES"
N_PROC = "N_PROC"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
VISIBLE_SLOTS = "CUDA_VISIBLE_DEVICES"
STOP_ON_NAN = "TARMAC_STOP_ON_NAN"
ALLOTTED_MS = "TARMAC_ALLOTTED_MS"
COMPUTE_MODE = "STRONG_COMPUTE_MODE"
CYCLE_COUNT = "STRONG_CYCLE_COUNT"
CYCLE_TIME_MS = "STRONG_CYCLE_TIME_MS"
PARAMETERS = "TARMAC_PARAMETERS"
PATH = "PATH"
VIRTUAL_ENV = "VIRTUAL_ENV"
THREADS = "OMP_NUM_THREADS"
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
UNBUFFERED = "PYTHONUNBUFFERED"

_C, _D, _N, _R = Giver.CONTRACT, Giver.DEFAULT, Giver.NODE, Giver.RUNNER

VARIABLES = (
    Variable(RUN_ID, _C, "id of the run; the same in every attempt"),
    Variable(RUN_NAME, _C, "name of the run"),
    Variable(ATTEMPT, _C, "number of the attempt, from 1; grows with every pause, preemption and retry"),
    Variable(ROLE, _C, "name of the worker's role; `main` where the run file has no `roles`"),
    Variable(REPLICA, _C, "index of the worker's replica in its role, from 0; with `slots`, of its node"),
    Variable(REPLICAS, _C, "how many replicas the role has; with `slots`, how many nodes"),
    Variable(WORKER, _C, "index of the worker among the processes of its replica, from 0"),
    Variable(WORKERS, _C, "how many processes a replica of the role has"),
    Variable(NNODES, _C, "how many nodes the role spans"),
    Variable(NODE_RANK, _C, "index of the worker's node among the nodes of its role, from 0"),
    Variable(
        N_PROC,
        _C,
        "how many processes the role has on this node: with `slots`, its slots there (the command starts a "
        "process for each); else its replicas there times the processes of one",
    ),
    Variable(MASTER_ADDR, _C, "address of the attempt's first node; the same for all workers of all roles"),
    Variable(MASTER_PORT, _C, "a port at MASTER_ADDR kept free for this attempt"),
    Variable(VISIBLE_SLOTS, _C, "numbers of the slots assigned to this worker, with commas; empty when none"),
    Variable(
        STOP_ON_NAN,
        _C,
        "`1` where the run asks to `stop_on_nan`: `tarmac.report` then ends a worker that reports a metric "
        "which is not finite; else not set",
    ),
    Variable(
        ALLOTTED_MS,
        _C,
        "milliseconds this attempt was promised, from the start of its workers: a turn, or what is left of a "
        "block; not set where nothing is promised",
    ),
    Variable(COMPUTE_MODE, _C, "`cycle` or `interruptible`; not set in runs of other modes, as the next two"),
    Variable(
        CYCLE_COUNT, _C, "how often the run was started or resumed: 1 at first, the same as TARMAC_ATTEMPT"
    ),
    Variable(CYCLE_TIME_MS, _C, "the same as TARMAC_ALLOTTED_MS"),
    Variable(
        PATH, _D, "the submitter's PATH on their own server, else the usual one; a venv's `bin` before it"
    ),
    Variable(
        VIRTUAL_ENV, _D, "the directory of `environment.venv`, else the submitter's on their own server"
    ),
    Variable("CONDA_PREFIX", _D, "the submitter's, on their own server only"),
    Variable(
        THREADS,
        _D,
        "one process's share of the processors of its node (of the machine, in a rehearsal); at least 1",
    ),
    Variable(GLOO_INTERFACE, _D, "`lo` when every node of the attempt has a loopback address; else not set"),
    Variable(UNBUFFERED, _D, "`1`: what Python prints is in the log at once"),
    Variable("HOME", _N, "home directory of the user the runner runs as"),
    Variable("USER", _N, "name of the user the runner runs as"),
    Variable("LOGNAME", _N, "the same as USER"),
    Variable("SHELL", _N, "login shell of that user"),
    Variable("LANG", _N, "locale of the node"),
    Variable("TMPDIR", _N, "where temporary files go on the node"),
    Variable("CHECKPOINT_ARTIFACT_PATH", _R, "directory for checkpoints; the same files in every attempt"),
    Variable("OUTPUT_PATH", _R, "the same as CHECKPOINT_ARTIFACT_PATH"),
    Variable("CRUD_ARTIFACT_PATH", _R, "directory for files that change; the same in every attempt"),
    Variable("LOSSY_ARTIFACT_PATH", _R, "directory for files of which the newest matter, such as metrics"),
    Variable("LOG_ARTIFACT_PATH", _R, "directory for log files of your own"),
    Variable(PARAMETERS, _R, "a file with the run's `parameters` as JSON; not set where there are none"),
    Variable("PYTHONPATH", _N, "the run file's, and at its end what makes `import tarmac` work"),
    Variable("TARMAC_PAUSE_FILE", _R, "once this file exists, the run has been asked to leave"),
    Variable(
        "TARMAC_POLL_FILE",
        _R,
        "a process that holds a shared lock (`flock`) on this file is not sent the signal of a pause, nor is "
        "its role: it looks at TARMAC_PAUSE_FILE and leaves by itself",
    ),
    Variable(
        "TARMAC_FINISHED_FILE", _R, "creating it says that the work is done, whatever the exit looks like"
    ),
    Variable(
        "TARMAC_LEAVE_AT",
        _R,
        "when the run is to be asked to leave (its turn, block or time limit), in seconds since the epoch by "
        "the node's clock; not set where no end is",
    ),
    Variable("TARMAC_REPORTS_FILE", _R, "metrics and progress go here, one JSON object per line"),
    Variable("TARMAC_ATTEMPT_TOKEN", _R, "marks every process of the attempt, so that none outlives it"),
)


def markdown() -> str:
    """The table of docs/variables.md."""
    rows = [f"| `{item.name}` | {item.giver} | {item.meaning} |" for item in VARIABLES]
    return "\n".join(["| variable | set by | meaning |", "|---|---|---|", *rows]) + "\n"

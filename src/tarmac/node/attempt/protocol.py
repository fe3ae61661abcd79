"""The attempt directory: the whole protocol between an engine and a runner, in one place.

    ATTEMPT/                          one per attempt; the engine completes it before any runner starts
      attempt.json                    the launch: the records of `document`
      ask                             JSON {"ask": "pause|preempt|stop|time_limit", "at": seconds}; replaced
                                      by rename; a stronger ask (stop) may replace a weaker one. The first
                                      runner whose job ends soon makes it: "wall_time", the weakest
      failed                          written by the first runner with a failing worker: others on the same
                                      disk also end their workers (elsewhere the server asks them to)
      failed_leaving                  the same for a worker that failed after a request to leave: the
                                      others continue as long as they save, see `node.hooks.watch`
      logs/ROLE.REPLICA.WORKER.log    the output of a worker, which itself has the file open
      logs/ROLE.REPLICA.WORKER.cut    JSON {"begin", "end"}: the part removed from a log over its limit: it
                                      reads as zeros, other bytes keep their offsets; replaced by rename
      logs/ROLE.REPLICA.WORKER.idx    time index: lines "SECONDS OFFSET\n", at most one a second
      logs/setup.NODE.log             the output of the setup steps and of the run's hooks
      logs/setup.NODE.idx             its time index, beginning at the start of the workers
      cleared                         JSON {"work": days, "logs": days}: parts removed by the server
                                      (days after the end of the run)
      prepared                        only with hooks: those before the workers are done, workers may start
      placed                          only with several nodes: the node of rank 0 has filled its artifact
                                      directories, and the store is complete
      meeting                         only if a cluster with a queue of its own grants the nodes: JSON
                                      {"port"}, a free port of the node of rank 0
      sealed.ID                       only for such nodes and with secrets: sealed values (`attempt.sealed`),
                                      until every node has read them
      nodes/NODE/claim                exclusive create: its creator owns the node's part of the attempt.
                                      JSON {"token", "process": {"pid", "start_ticks"}, "boot_id", "name"},
                                      or {"fenced": true}. `name` is the runner's name while it serves the
                                      claim ("": it serves one attempt only)
      nodes/NODE/events.jsonl         the runner's report, appended (see `EVENTS`)
      nodes/NODE/heartbeat            its mtime is the runner's last sign of life; made, like `wake`, a moment
                                      after the start
      nodes/NODE/utilization          JSON {"at", "memory_bytes", "cpus", "gpus": [{"index", "busy_percent",
                                      "used_bytes", "total_bytes"}]}: the workers' use, replaced repeatedly;
                                      missing for workers that run for seconds only
      nodes/NODE/lease                only with `lease_s`: its mtime is when the server last asked about the
                                      attempt here, in time since the node was booted (CLOCK_BOOTTIME)
      nodes/NODE/wake                 a FIFO: one byte makes the runner read `ask` and `failed` at once; a
                                      line here replaces a file that a full disk cannot store
      nodes/NODE/work/                the fresh working directory; stays after the end. With
                                      `own_directories`, each of several workers starts in its own directory
                                      here, named like its log, with the code at its root
      nodes/NODE/files/               the node's `files`, for the run alone to read
      nodes/NODE/reports.jsonl        metrics and progress from the SDK, one JSON object per line
      nodes/NODE/finished             the SDK's report that the work is done, regardless of the exit code
      nodes/NODE/world                the SDK's report that a process's world size differs from the
                                      run's: a sentence for the user
      nodes/NODE/pause                the pause file: it exists = `should_pause()` is true
      nodes/NODE/polls.ROLE.REPLICA.WORKER  locked (shared, flock) by every process of the worker that calls
                                      `should_pause()`: its role gets no signal for a pause. Not empty
                                      after one of them has learned of a pause
      nodes/NODE/venv/                packages of this attempt alone, on top of shared environments
      nodes/NODE/left                 only with hooks: the workers of this node have ended
      roots/NODE/                     only in an image, while the attempt runs: its files outside
                                      the directories that the node shows
      nodes/NODE/runner.log           only after a fault of the runner itself: its traceback
      nodes/NODE/sync.jsonl           only with artifacts: the reports of the sidecar that stores them
      nodes/NODE/sync.log             the sidecar's other output: empty, unless it fails

    The runner makes logs/, nodes/NODE/ and the artifact directories if missing, and may remove those that it
    made if the attempt leaves them all empty. The claiming process writes the complete claim before it is
    visible; a claim never changes. `failed` and `failed_leaving` hold {"node", "cause", "at"}.

EVENTS (every line has "at" (seconds) and "kind")
    claimed          {"pid", "name"}     `name` (may be absent) names a node that was first known by its rank
    setup_failed     {"step", "exit_code", "signal", "tail"}
    worker_started   {"role", "replica", "index", "pid"}
    running          the runner has started every worker of the node
    first_output     of any worker: the first byte of its log, or the SDK's first report
    checkpoint       {"step"}            the newest complete checkpoint; repeated at intervals while newer
                     ones follow. `step` only for one of the SDK
    checkpoint_read  a worker read a checkpoint of an earlier attempt for the first time
    asked            {"ask"}             the runner has passed the request to the workers
    worker_ended     {"role", "replica", "index", "exit_code", "signal", "tail"}
    notice           {"text"}            a message for the user (no mount namespace here, ...)
    artifact         {"id", "files", "bytes", "left_out"}   a new version is in the store; "left_out" (may be
                     absent) are the paths of incomplete files
    artifact_kept    {"saved_at", "step"}     the time at which the newest version's newest checkpoint was
                     saved (0: it has none), and its step (only for one of the SDK): appended with each
                     version of checkpoints, and at the end of the attempt
    artifact_placed  {"id"}              a version was restored into its directory, before the workers
    artifact_restored  {"saved_at", "step"}   the same for the checkpoint that the workers find
    ended            {"outcome", "cause", "finished"}   the last line: no process of the attempt is left on
                     the node. `finished`: the SDK reported it. `aggregate_outcome` merges all nodes

`cause` is {"code", "message", "role", "replica", "worker", "node", "exit_code", "signal", "tail"}, without
inapplicable fields; outcome and code are words of the glossary. A missing command counts as a worker that
ended with exit code 127 (126: it is not executable) and never started.

REPORTS (one line per call of the SDK's `report`)
    {"at", "rank", "step", "group", "progress", "metrics": {name: number or text}}   NaN and infinities as
    text; `group` (may be absent: "training") is the group of the metrics, such as "validation"

STARTING A RUNNER
    In a new process: `starting.Installation.run(directory, node)`. Faster, by a warm parent that
    forks: `starting.Installation.warm(fd)`, where `fd` is one end of a connected unix stream socket (a
    socketpair), inherited. One line of JSON, a list of requests {"directory", "node", "secrets": {name:
    value}} (the last may be absent); then one line, a list of answers: {"pid"} of the runner, which was
    forked or had waited for work, or {"error"}. The parent ends after the other end is closed; runners with
    an attempt continue.
    Only this way carries the values of secrets: `run` cannot start an attempt with secrets.
    Only the claim shows whether a runner is alive (`claims.read`, `claims.is_alive`), never a pid: a runner
    may serve several attempts in turn.
    If a cluster with a queue of its own grants the nodes: `starting.Installation.join(directory, rank,
    nodes, devices)` on each of them. Its part is that of the node `rank-RANK`; NODES are all names by
    rank, with commas, each with `=ADDRESS` if the name is no address; DEVICES the accelerators granted
    there, with commas. First the runners find the address and port of the rendezvous, which replace
    their placeholders in attempt.json (`late_address`, `LATE_PORT`). Secrets are in the file
    that the variable KEY_VARIABLE opens.
"""

from __future__ import annotations

import os
import re

PROTOCOL = 1

ATTEMPT_FILE = "attempt.json"
ASK_FILE = "ask"
FAILED_FILE = "failed"
FAILED_LEAVING_FILE = "failed_leaving"
LOGS = "logs"
NODES = "nodes"

CLAIM_FILE = "claim"
EVENTS_FILE = "events.jsonl"
HEARTBEAT_FILE = "heartbeat"
UTILIZATION_FILE = "utilization"
WAKE_FIFO = "wake"
WORK = "work"
WORKING_DIRECTORY = "."
"""The source of a mount that names work/ itself."""
REPORTS_FILE = "reports.jsonl"
LONGEST_REPORTS_BYTES = 64 * 1024 * 1024
"""The limit for the file of reports; the server ignores the rest and appends a notice."""
FINISHED_FILE = "finished"
POLL_PREFIX = "polls."
FILES = "files"
VENV = "venv"
PREPARED_FILE = "prepared"
PLACED_FILE = "placed"
MEETING_FILE = "meeting"
CLEARED_FILE = "cleared"
SEALED_PREFIX = "sealed."
LEFT_FILE = "left"

ARTIFACT_KINDS = ("checkpoint", "crud", "lossy", "log")

PATIENCE_S = 30.0
"""The time for which workers may continue to save after one of them failed while leaving."""

LOOK_S = 0.5
"""The default interval in which a runner polls for requests."""

HEARTBEAT_PERIOD_S = 5.0
HEARTBEAT_LEASE_S = 30.0

START_ALLOWANCE_S = 120.0
"""A block of time begins when the workers start; a longer setup counts as part of it."""

TOKEN_VARIABLE = "TARMAC_ATTEMPT_TOKEN"
"""Every descendant of an attempt has this variable, which finds the processes of a lost runner."""

KEY_VARIABLE = "TARMAC_SEALED_KEY"
"""The job of an attempt with secrets has this variable, but none of its workers."""

PAUSE_VARIABLE = "TARMAC_PAUSE_FILE"
POLL_VARIABLE = "TARMAC_POLL_FILE"
FINISHED_VARIABLE = "TARMAC_FINISHED_FILE"
REPORTS_VARIABLE = "TARMAC_REPORTS_FILE"
WORLD_VARIABLE = "TARMAC_WORLD_FILE"
LEAVE_VARIABLE = "TARMAC_LEAVE_AT"
STOP_ON_NAN_VARIABLE = "TARMAC_STOP_ON_NAN"
NOT_FINITE = ("nan", "inf", "-inf")
"""The SDK's reports of numbers that are not finite."""
CHECKPOINT_VARIABLE = "CHECKPOINT_ARTIFACT_PATH"

ARTIFACT_VARIABLES = {
    "checkpoint": (CHECKPOINT_VARIABLE, "OUTPUT_PATH"),
    "crud": ("CRUD_ARTIFACT_PATH",),
    "lossy": ("LOSSY_ARTIFACT_PATH",),
    "log": ("LOG_ARTIFACT_PATH",),
}
"""The variable that names each artifact directory."""

BATCH_VARIABLES = "TARMAC_BATCH_VARIABLES"
"""The variable with the file of a job's variables, for a script that starts steps itself."""

ARTIFACT_MOUNTS = {"checkpoint": "/mnt/checkpoints", "crud": "/mnt/crud", "lossy": "/mnt/lossy"}
"""The literal path of each artifact directory, if a private view of the disk is allowed."""

LATEST = "latest"
"""The link, in the checkpoint directory, to the newest complete checkpoint of the SDK."""

STEP_PREFIX = "step-"
"""The prefix of such a checkpoint's name; its step follows, then `.2` for a second one of that step."""

STEP = re.compile(re.escape(STEP_PREFIX) + r"([0-9]{1,15})(\.[0-9]+)?")

UNFINISHED = ".unfinished-"
"""The prefix of hidden directories in which the SDK prepares a checkpoint."""


TORN = ".torn"
"""The directory, among checkpoints, for files whose writer ended before it closed them."""


LATE_PORT = "port.tarmac.invalid"
"""The placeholder in attempt.json for the port at the node of rank 0, which they find (`GrantedNode`)."""


def rank_name(rank: int) -> str:
    """The name of a node before the cluster has named it."""
    return f"rank-{rank}"


def late_address(rank: int) -> str:
    """The placeholder in attempt.json for the address of a node that was unknown at submission."""
    return f"{rank_name(rank)}.tarmac.invalid"


def unfinished_prefix(number: int | str, rank: int | str | None = None) -> str:
    """The prefix of such directories of one attempt, or of one of its nodes."""
    return f"{UNFINISHED}{number}." if rank is None else f"{UNFINISHED}{number}.{rank}."


class AttemptPaths:
    """The paths of one attempt."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self.description = f"{self.directory}/{ATTEMPT_FILE}"
        self.ask = f"{self.directory}/{ASK_FILE}"
        self.failed = f"{self.directory}/{FAILED_FILE}"
        self.failed_leaving = f"{self.directory}/{FAILED_LEAVING_FILE}"
        self.logs = f"{self.directory}/{LOGS}"
        self.prepared = f"{self.directory}/{PREPARED_FILE}"
        self.placed = f"{self.directory}/{PLACED_FILE}"
        self.meeting = f"{self.directory}/{MEETING_FILE}"

    def node(self, name: str) -> NodePaths:
        """The paths of one node's part."""
        return NodePaths(f"{self.directory}/{NODES}/{name}")

    def root(self, node: str) -> str:
        """The container's writable layer on a node, if the attempt runs in an image; removed at the end."""
        return f"{self.directory}/roots/{node}"

    def node_names(self) -> list[str]:
        """The nodes with a part on this disk."""
        try:
            return os.listdir(f"{self.directory}/{NODES}")
        except OSError:
            return []

    def log(self, worker: str) -> str:
        """The log of the worker ROLE.REPLICA.WORKER."""
        return f"{self.logs}/{worker}.log"

    def index(self, worker: str) -> str:
        """The time index of the log of a worker."""
        return f"{self.logs}/{worker}.idx"


class NodePaths:
    """The paths of one node's part."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.claim = f"{directory}/{CLAIM_FILE}"
        self.events = f"{directory}/{EVENTS_FILE}"
        self.heartbeat = f"{directory}/{HEARTBEAT_FILE}"
        self.utilization = f"{directory}/{UTILIZATION_FILE}"
        self.lease = f"{directory}/lease"
        self.wake = f"{directory}/{WAKE_FIFO}"
        self.work = f"{directory}/{WORK}"
        self.files = f"{directory}/{FILES}"
        self.venv = f"{directory}/{VENV}"
        self.reports = f"{directory}/{REPORTS_FILE}"
        self.finished = f"{directory}/{FINISHED_FILE}"
        self.world = f"{directory}/world"
        self.pause = f"{directory}/pause"
        self.left = f"{directory}/{LEFT_FILE}"
        self.runner_log = f"{directory}/runner.log"
        self.sync = f"{directory}/sync.jsonl"
        self.sync_log = f"{directory}/sync.log"

    def polls(self, worker: str) -> str:
        """The poll file of the worker ROLE.REPLICA.WORKER."""
        return f"{self.directory}/{POLL_PREFIX}{worker}"

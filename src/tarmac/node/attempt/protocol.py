"""The attempt directory: the whole protocol between an engine and a runner, in one place.

    ATTEMPT/                          one per attempt; made whole by the engine before any runner starts
      attempt.json                    what to run: the records of `document`
      ask                             JSON {"ask": "pause|preempt|stop|time_limit", "at": seconds}; replaced
                                      by rename; a stronger ask (stop) may replace a weaker one. The first
                                      runner whose job is to end soon makes it: "wall_time", the weakest
      failed                          written by the first runner with a failing worker: others on the same
                                      disk end their workers too (elsewhere the server asks them to)
      failed_leaving                  the same of a worker that failed after all had been asked to leave: the
                                      others go on for as long as they save, see `node.hooks.grace`
      logs/ROLE.REPLICA.WORKER.log    the bytes a worker wrote; the worker holds the file itself
      logs/ROLE.REPLICA.WORKER.cut    JSON {"begin", "end"}: what was left out of a log that was too long: it
                                      reads as zeros, all other bytes keep their places; replaced by rename
      logs/ROLE.REPLICA.WORKER.idx    time index: lines "SECONDS OFFSET\n", at most one a second
      logs/setup.NODE.log             what the setup steps wrote, and the run's hooks
      logs/setup.NODE.idx             its time index, from when the workers have started
      cleared                         JSON {"work": days, "logs": days}: what the server removed so long after
                                      the end of the run
      prepared                        only with hooks: those before the workers are done, they may start
      placed                          only with several nodes: the artifact directories of the node of rank 0
                                      hold what they should, and so does the store
      meeting                         only where a cluster with a queue of its own has given the nodes: JSON
                                      {"port"}, which the node of rank 0 found free
      sealed.ID                       only there, and with secrets: their values, sealed (`attempt.sealed`),
                                      until every node has read them
      nodes/NODE/claim                exclusive create: whoever makes it owns the node's part of the attempt.
                                      JSON {"token", "pid", "start_ticks", "boot_id", "name"}, or
                                      {"fenced": true}. The runner is called `name` while it serves the claim
                                      ("": it is one attempt's alone)
      nodes/NODE/events.jsonl         the runner's report, appended (see `EVENTS`)
      nodes/NODE/heartbeat            its mtime is the runner's last sign of life
      nodes/NODE/utilization          JSON {"at", "memory_bytes", "cpus", "gpus": [{"index", "busy_percent",
                                      "used_bytes", "total_bytes"}]}: what the workers use, replaced now and
                                      then. None of workers that run for seconds only
      nodes/NODE/lease                only with `lease_s`: its mtime is when the server last asked about the
                                      attempt here, in time since the node was booted (CLOCK_BOOTTIME)
      nodes/NODE/wake                 a FIFO: one byte makes the runner look at `ask` and `failed` at once;
                                      what a full disk has no room for may be said here instead, as one line
      nodes/NODE/work/                the fresh working directory; stays after the end. With
                                      `own_directories`, of several workers each starts in one of its own
                                      here, named as its log, with the code at its root
      nodes/NODE/files/               the node's `files`, for the run alone to read
      nodes/NODE/reports.jsonl        metrics and progress from the SDK, one JSON object per line
      nodes/NODE/finished             the SDK's word that the work is done, whatever the exit looks like
      nodes/NODE/world                the SDK's word that a process trains in a world of another size than the
                                      run's: a sentence for the user
      nodes/NODE/pause                the pause file: it exists = `should_pause()` is true
      nodes/NODE/polls.ROLE.REPLICA.WORKER  locked (shared, flock) by every process of the worker that asks
                                      `should_pause()`: its role is not sent the signal of a pause. Not empty
                                      once one of them has heard of a pause
      nodes/NODE/venv/                what this attempt alone installs, over the environments it shares
      nodes/NODE/left                 only with hooks: the workers of this node have ended
      roots/NODE/                     only in an image, while the attempt runs: what was written there beside
                                      the directories that the node shows
      nodes/NODE/runner.log           only after a fault of the runner itself: its traceback
      nodes/NODE/sync.jsonl           only where there are artifacts: what the sidecar that keeps them says
      nodes/NODE/sync.log             what it writes besides: nothing, unless it fails

    The runner makes what is missing of logs/, nodes/NODE/ and the artifact directories. Whoever claims makes
    the claim whole before it is visible; a claim never changes again. `failed` and
    `failed_leaving` hold {"node", "cause", "at"}.

EVENTS (every line has "at" (seconds) and "kind")
    claimed          {"pid", "name"}     `name` (may be absent) is that of a node that went by its rank before
    setup_failed     {"step", "exit_code", "signal", "tail"}
    worker_started   {"role", "replica", "index", "pid"}
    running          every worker of the node was started
    first_output     of any worker: the first byte of its log, or the SDK's first report
    checkpoint       {"step"}            the newest whole checkpoint; told again now and then while newer ones
                     follow. `step` only of one that the SDK has made
    checkpoint_read  a worker read for the first time what an earlier attempt had left in the checkpoints
    asked            {"ask"}             the workers have been told
    worker_ended     {"role", "replica", "index", "exit_code", "signal", "tail"}
    notice           {"text"}            something the user should know (no mount namespace here, ...)
    artifact         {"id", "files", "bytes", "left_out"}   a new version is in the store; "left_out" (may be
                     absent) are the paths of what was not whole
    artifact_kept    {"saved_at", "step"}     when the newest checkpoint in the newest version was saved (0:
                     that has none) and its step (absent but where the SDK made it): with each version of
                     checkpoints, and when the attempt has ended
    artifact_placed  {"id"}              a version was placed into its directory, before the workers
    artifact_restored  {"saved_at", "step"}   the same of the checkpoint that the workers find
    ended            {"outcome", "cause", "finished"}   the last line: nothing of the attempt runs on the node
                     any more. `finished`: the SDK said so. `exit_outcome.combine` makes one of all

`cause` is {"code", "message", "role", "replica", "worker", "node", "exit_code", "signal", "tail"}, less
what does not apply; outcome and code take the words of the glossary. A command that does not exist counts as
a worker that ended with exit code 127 (126: it may not be executed) and never started.

REPORTS (one line per call of the SDK's `report`)
    {"at", "rank", "step", "group", "progress", "metrics": {name: number or text}}   NaN and infinities as
    text; `group` (may be absent: "training") is that of the metrics, such as "validation"

STARTING A RUNNER
    In a new process: `starting.Installation.run(directory, node)`. Quicker, by a warm parent that
    forks: `starting.Installation.warm(fd)`, where `fd` is one end of a connected unix stream socket (a
    socketpair), inherited. One line of JSON per request, {"directory", "node", "secrets": {name: value}} (the
    last may be absent); one per answer, in order: {"pid"} of the runner, which was forked for it or waited
    for work, or {"error"}. It ends when the other end is closed; runners that serve an attempt live on. The
    values of secrets travel here alone: an attempt with secrets cannot be started by `run`.
    Who is alive is said by the claim (`claims.read`, `liveness.is_alive`), never by a pid alone: a runner
    may serve one attempt after the other.
    Where a cluster with a queue of its own gives the nodes: `starting.Installation.join(directory, rank,
    nodes, devices)` on each of them. Its part is that of the node `rank-RANK`; NODES are the names of all by
    rank, with commas, each with `=ADDRESS` where its name is none; DEVICES the accelerators it was given
    there, with commas. Before anything else the runners find where workers meet: addresses and port take
    the place of what stands for them in attempt.json (`late_address`, `LATE_PORT`). Secrets are in the file
    that the variable KEY_VARIABLE opens.
"""

from __future__ import annotations

import re

PROTOCOL = 1

LONGEST_REQUEST_BYTES = 16 * 1024 * 1024
"""Of a request to a warm parent; only one with many large secrets comes near it."""

ATTEMPT_FILE = "attempt.json"
ASK_FILE = "ask"
FAILED_FILE = "failed"
FAILED_LEAVING_FILE = "failed_leaving"
LOGS = "logs"
NODES = "nodes"
ROOTS = "roots"

CLAIM_FILE = "claim"
EVENTS_FILE = "events.jsonl"
HEARTBEAT_FILE = "heartbeat"
UTILIZATION_FILE = "utilization"
LEASE_FILE = "lease"
WAKE_FIFO = "wake"
WORK = "work"
WORKING_DIRECTORY = "."
"""As the source of a mount: work/ itself."""
REPORTS_FILE = "reports.jsonl"
LONGEST_REPORTS_BYTES = 64 * 1024 * 1024
"""Of a longer file the rest is not read, and a notice says so."""
FINISHED_FILE = "finished"
WORLD_FILE = "world"
PAUSE_FILE = "pause"
POLL_PREFIX = "polls."
FILES = "files"
VENV = "venv"
RUNNER_LOG = "runner.log"
PREPARED_FILE = "prepared"
PLACED_FILE = "placed"
MEETING_FILE = "meeting"
CLEARED_FILE = "cleared"
SEALED_PREFIX = "sealed."
LEFT_FILE = "left"
SYNC_FILE = "sync.jsonl"
SYNC_LOG = "sync.log"

ARTIFACT_KINDS = ("checkpoint", "crud", "lossy", "log")

PATIENCE_S = 30.0
"""So long at a time workers that leave may go on once one of them has failed."""

LOOK_S = 0.5
"""How often a runner looks by itself at what it is asked, where nothing else is said."""

HEARTBEAT_PERIOD_S = 5.0
HEARTBEAT_LEASE_S = 30.0

START_ALLOWANCE_S = 120.0
"""A block of time begins when the workers start: setting up for longer than this is part of it."""

TOKEN_VARIABLE = "TARMAC_ATTEMPT_TOKEN"
"""Every descendant of an attempt carries it: what a lost runner left behind is found by it."""

KEY_VARIABLE = "TARMAC_SEALED_KEY"
"""Given to the job of an attempt with secrets, and to none of its workers."""

PAUSE_VARIABLE = "TARMAC_PAUSE_FILE"
POLL_VARIABLE = "TARMAC_POLL_FILE"
FINISHED_VARIABLE = "TARMAC_FINISHED_FILE"
REPORTS_VARIABLE = "TARMAC_REPORTS_FILE"
WORLD_VARIABLE = "TARMAC_WORLD_FILE"
LEAVE_VARIABLE = "TARMAC_LEAVE_AT"
STOP_ON_NAN_VARIABLE = "TARMAC_STOP_ON_NAN"
NOT_FINITE = ("nan", "inf", "-inf")
"""What the SDK reports for a number that is not finite."""
CHECKPOINT_VARIABLE = "CHECKPOINT_ARTIFACT_PATH"

ARTIFACT_VARIABLES = {
    "checkpoint": (CHECKPOINT_VARIABLE, "OUTPUT_PATH"),
    "crud": ("CRUD_ARTIFACT_PATH",),
    "lossy": ("LOSSY_ARTIFACT_PATH",),
    "log": ("LOG_ARTIFACT_PATH",),
}
"""The variables that name each artifact directory."""

ARTIFACT_MOUNTS = {"checkpoint": "/mnt/checkpoints", "crud": "/mnt/crud", "lossy": "/mnt/lossy"}
"""The literal path of each artifact directory, where a private view of the disk is allowed."""

LATEST = "latest"
"""The link, in the checkpoint directory, to the newest whole checkpoint that the SDK has made."""

STEP_PREFIX = "step-"
"""What the name of such a checkpoint begins with; its step follows, and `.2` where there was one already."""

STEP = re.compile(re.escape(STEP_PREFIX) + r"([0-9]{1,15})(\.[0-9]+)?")

UNFINISHED = ".unfinished-"
"""What hidden directories begin with in which the SDK prepares a checkpoint."""


TORN = ".torn"
"""Where files lie, in a directory of checkpoints, that were being written when their writer was ended."""


LATE_PORT = "port.tarmac.invalid"
"""Stands in attempt.json for the port at the node of rank 0, where the nodes find it (`granted`)."""


def rank_name(rank: int) -> str:
    """What a node is called until the cluster that gives it has said its name."""
    return f"rank-{rank}"


def late_address(rank: int) -> str:
    """Stands in attempt.json for the address of a node that nobody knew when the attempt was submitted."""
    return f"{rank_name(rank)}.tarmac.invalid"


def unfinished_prefix(number: int | str, rank: int | str | None = None) -> str:
    """How such directories of one attempt begin, or of one node of it."""
    return f"{UNFINISHED}{number}." if rank is None else f"{UNFINISHED}{number}.{rank}."

"""Runs, workers and causes in words. Used by every command that shows a run.

The records are the JSON objects of docs/using/api.md, as the client returns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.cli.views.amounts import duration
from tarmac.cli.views.table import Cell
from tarmac.cli.views.terminal import Terminal, harmless

Json = Mapping[str, Any]

BATCH, CYCLE = "batch", "cycle"

_STYLES = {
    "pending": "dim",
    "queued": "yellow",
    "submitted": "yellow",
    "starting": "cyan",
    "running": "cyan",
    "pausing": "magenta",
    "paused": "magenta",
    "preempting": "yellow",
    "stopping": "yellow",
    "completed": "green",
    "failed": "red",
    "stopped": "yellow",
    "lost": "red",
    "preempted": "yellow",
    "up": "green",
    "drained": "yellow",
    "down": "red",
}


def state_of(record: Json) -> str:
    """The word for a run or an attempt: its outcome if it has one, else its state."""
    return str(record.get("outcome") or record["state"])


def title(run: Json) -> str:
    """The name of a run; for a member of an array with its index: `sweep[3]`."""
    return member_name(str(run["name"]), run.get("array_index"))


def member_name(name: str, index: int | None) -> str:
    """The name of a run, with its index if it is a member of an array."""
    return name if index is None else f"{name}[{index}]"


def state_cell(word: str) -> Cell:
    """A state or an outcome in its colour."""
    return Cell(word, _STYLES.get(word))


def worker_cell(worker: Json) -> Cell:
    """The state of a worker: waiting, running, or how it ended."""
    if worker["signal"] is not None:
        return Cell(worker["signal"], "red")
    if worker["exit_code"] is not None:
        return Cell(f"exited {worker['exit_code']}", "green" if worker["exit_code"] == 0 else "red")
    return Cell("running", "cyan") if worker["pid"] is not None else Cell("waiting", "dim")


def elapsed_s(record: Json, now: float) -> float | None:
    """The running time of a run or an attempt, so far or in total; None if it has not started."""
    started = record.get("started_at")
    if started is None:
        return None
    return float((record.get("ended_at") or now) - started)


_IDLE = frozenset({"pending", "queued", "paused"})
"""States in which a run occupies nothing."""


def running_s(run: Json, now: float) -> float | None:
    """The running time of a run, so far or in total; None for a waiting run, even after earlier attempts."""
    return None if run["state"] in _IDLE else elapsed_s(run, now)


def worker_name(record: Json) -> str | None:
    """The "role.replica.worker" of a cause, a log chunk or a worker; None if it names none."""
    if record.get("role") is None:
        return None
    index = record.get("worker", record.get("index"))
    parts = (record["role"], record.get("replica"), index)
    return ".".join(str(part) for part in parts if part is not None)


def culprit(cause: Json) -> str | None:
    """The failed worker, its node and its end: "worker main.1.0 on n-1 exited with code 7"."""
    worker, node = worker_name(cause), cause.get("node")
    worker_text = f"worker {worker}" if worker else ""
    where = f"{'on ' if worker_text else ''}node {node}" if node else ""
    subject = " ".join(part for part in (worker_text, where) if part)
    if cause.get("exit_code") is not None:
        return f"{subject or 'it'} exited with code {cause['exit_code']}"
    if cause.get("signal") is not None:
        return f"{subject or 'it'} was ended by {cause['signal']}"
    return subject or None


def ending(run: Json, terminal: Terminal, *, tail_shown: bool) -> list[str]:
    """The lines for stderr about an ended run, with the last log lines unless just shown."""
    outcome, cause = str(run.get("outcome")), run.get("cause") or {}
    took = elapsed_s(run, run.get("ended_at") or 0.0)
    after = f" after {duration(took)}" if took is not None else ""
    if outcome == "completed":
        took_text = f" in {duration(took)}" if took is not None else ""
        shown = cause.get("message")  # a cycle run that has not proven pause and resume
        if shown:
            return [f"{terminal.paint('tarmac:', 'yellow')} {shown}{took_text and f' ({took_text.strip()})'}"]
        turns = f" after {run['turns']} of {run['max_turns']} turns" if run.get("max_turns") else ""
        proven = ": pause and resume proven" if turns else ""
        return [terminal.paint(f"tarmac: completed{turns}{took_text}{proven}", "dim")]
    message = cause.get("message")
    if outcome == "stopped":
        return [terminal.paint(f"tarmac: stopped{after}" + (f": {message}" if message else ""), "dim")]
    lines = [f"{terminal.paint('error:', 'red')} {title(run)} failed{after}: {_why_failed(cause)}"]
    if cause.get("tail") and not tail_shown:
        lines.append("  its last lines:")
        lines += [f"  {terminal.paint('|', 'dim')} {line}" for line in cause["tail"]]
    lines.append(f"  {terminal.paint('hint:', 'cyan')} {failure_hint(run)}")
    return lines


def failure_hint(run: Json) -> str:
    """A hint after a failure."""
    cause = run.get("cause") or {}
    code, identifier = cause.get("code"), run["id"]
    role = cause.get("role")
    narrowed = f" --role {role} --replica {cause.get('replica') or 0}" if role else ""
    if cause.get("rank") is not None:
        narrowed = f" --rank {cause['rank']}"
    image = run.get("spec", {}).get("environment", {}).get("image")
    everything = f"everything it wrote: tarmac logs {identifier}{narrowed}"
    own: dict[str, str] = {
        "time_limit": "give it longer with --time-limit, or retries that resume from its checkpoint",
        "wall_time": "save to $CHECKPOINT_ARTIFACT_PATH when it is asked to leave, and start from there",
        "out_of_memory": f"ask for more memory, or make the batch smaller; {everything}",
        "command_not_found": "is it installed where the run looks? tarmac run --dry-run shows its PATH",
        "unsupported": "turn on the gateway for Determined in settings.toml "
        "(docs/using/determined-gateway.md), or take the call out: hyperparameters are in DET_HPARAMS",
        "image_pull": f"to try it alone: tarmac images pull {image}, with --secret NAME for credentials",
        "setup_failed": f"what the setup steps wrote: tarmac logs {identifier}"
        if cause.get("tail")
        else f"once that is put right: tarmac run --clone {identifier}",
        "never_fits": "tarmac nodes lists what there is",
        "dependency_failed": "--after RUN:ended starts it however the other run ends",
        "busy": "without --fail-if-busy it waits for its turn",
        "lease_expired": f"it can go on from its last checkpoint: tarmac run --clone {identifier} --resume",
        "node_lost": f"it can go on from its last checkpoint: tarmac run --clone {identifier} --resume",
    }
    return own.get(str(code), everything)


def _why_failed(cause: Json) -> str:
    """The cause in one sentence with worker, node and exit code, even if its message omits them."""
    message, subject = harmless(str(cause.get("message") or "")), culprit(cause)
    if not message:
        return subject or "no cause is known"
    complete = all(
        str(cause[key]) in message for key in ("node", "exit_code", "signal") if cause.get(key) is not None
    )
    worker = worker_name(cause)
    if subject is None or (complete and (worker is None or worker in message)):
        return message
    return f"{message} ({subject})"

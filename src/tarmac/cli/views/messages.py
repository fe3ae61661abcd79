"""Runs, workers and causes in words; also how a run shares its pool over time: turns, blocks, preemption.

Used by every command that shows a run.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from tarmac import api
from tarmac.cli.views.amounts import age, duration
from tarmac.cli.views.table import Cell
from tarmac.cli.views.terminal import Terminal, harmless
from tarmac.client import Client
from tarmac.model.progress import Cause, Share, WorkerStatus, loss_text
from tarmac.model.summary import RunSummary

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
    "active": "green",
    "up": "green",
    "drained": "yellow",
    "reserved": "cyan",
    "down": "red",
}


def state_of(record: api.Run | RunSummary | api.Attempt) -> str:
    """The word for a run or an attempt: its outcome if it has one, else its state."""
    return str(record.outcome or record.state)


def title(run: api.Run | RunSummary) -> str:
    """The name of a run; for a member of an array with its index: `sweep[3]`."""
    return member_name(run.name, run.array_index)


def member_name(name: str, index: int | None) -> str:
    """The name of a run, with its index if it is a member of an array."""
    return name if index is None else f"{name}[{index}]"


def state_cell(word: str) -> Cell:
    """A state or an outcome in its colour."""
    return Cell(word, _STYLES.get(word))


def worker_cell(worker: WorkerStatus) -> Cell:
    """The state of a worker: waiting, running, or how it ended."""
    if worker.signal is not None:
        return Cell(worker.signal, "red")
    if worker.exit_code is not None:
        return Cell(f"exited {worker.exit_code}", "green" if worker.exit_code == 0 else "red")
    return Cell("running", "cyan") if worker.pid is not None else Cell("waiting", "dim")


def elapsed_s(record: api.Run | RunSummary | api.Attempt | WorkerStatus, now: float) -> float | None:
    """The running time of a run or an attempt, so far or in total; None if it has not started."""
    started = record.started_at
    return None if started is None else (record.ended_at or now) - started


_IDLE = frozenset({"pending", "queued", "paused"})
"""States in which a run occupies nothing."""


def running_s(run: api.Run | RunSummary, now: float) -> float | None:
    """The running time of a run, so far or in total; None for a waiting run, even after earlier attempts."""
    return None if run.state in _IDLE else elapsed_s(run, now)


def worker_name(role: str | None, replica: int | None, worker: int | None) -> str | None:
    """The "role.replica.worker" of a worker, with the parts that are known; None without a role."""
    if role is None:
        return None
    return ".".join(str(part) for part in (role, replica, worker) if part is not None)


def culprit(cause: Cause) -> str | None:
    """The failed worker, its node and its end: "worker main.1.0 on n-1 exited with code 7"."""
    worker, node = worker_name(cause.role, cause.replica, cause.worker), cause.node
    worker_text = f"worker {worker}" if worker else ""
    where = f"{'on ' if worker_text else ''}node {node}" if node else ""
    subject = " ".join(part for part in (worker_text, where) if part)
    if cause.exit_code is not None:
        return f"{subject or 'it'} exited with code {cause.exit_code}"
    if cause.signal is not None:
        return f"{subject or 'it'} was ended by {cause.signal}"
    return subject or None


def ending(run: api.Run, terminal: Terminal, *, tail_shown: bool) -> list[str]:
    """The lines for stderr about an ended run, with the last log lines unless just shown."""
    cause = run.cause
    message = cause.message if cause is not None else ""
    took = elapsed_s(run, run.ended_at or 0.0)
    after = f" after {duration(took)}" if took is not None else ""
    if run.outcome == "completed":
        took_text = f" in {duration(took)}" if took is not None else ""
        if message:  # a cycle run that has not proven pause and resume
            return [
                f"{terminal.paint('tarmac:', 'yellow')} {message}{took_text and f' ({took_text.strip()})'}"
            ]
        turns = f" after {run.turns} of {run.max_turns} turns" if run.max_turns else ""
        proven = ": pause and resume proven" if turns else ""
        return [terminal.paint(f"tarmac: completed{turns}{took_text}{proven}", "dim")]
    if run.outcome == "stopped":
        return [terminal.paint(f"tarmac: stopped{after}" + (f": {message}" if message else ""), "dim")]
    lines = [f"{terminal.paint('error:', 'red')} {title(run)} failed{after}: {_why_failed(cause)}"]
    if cause is not None and cause.tail and not tail_shown:
        lines.append("  its last lines:")
        lines += [f"  {terminal.paint('|', 'dim')} {line}" for line in cause.tail]
    lines.append(f"  {terminal.paint('hint:', 'cyan')} {failure_hint(run)}")
    return lines


def failure_hint(run: api.Run) -> str:
    """A hint after a failure."""
    cause, identifier, narrowed = run.cause, run.id, ""
    if cause is not None and cause.rank is not None:
        narrowed = f" --rank {cause.rank}"
    elif cause is not None and cause.role:
        narrowed = f" --role {cause.role} --replica {cause.replica or 0}"
    image = run.spec.get("environment", {}).get("image")
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
        if cause is not None and cause.tail
        else f"once that is put right: tarmac run --clone {identifier}",
        "never_fits": "tarmac nodes lists what there is",
        "dependency_failed": "--after RUN:ended starts it however the other run ends",
        "busy": "without --fail-if-busy it waits for its turn",
        "lease_expired": f"it can go on from its last checkpoint: tarmac run --clone {identifier} --resume",
        "node_lost": f"it can go on from its last checkpoint: tarmac run --clone {identifier} --resume",
    }
    return own.get(cause.code, everything) if cause is not None else everything


def _why_failed(cause: Cause | None) -> str:
    """The cause in one sentence with worker, node and exit code, even if its message omits them."""
    if cause is None:
        return "no cause is known"
    message, subject = harmless(cause.message), culprit(cause)
    if not message:
        return subject or "no cause is known"
    facts = (cause.node, cause.exit_code, cause.signal)
    complete = all(str(fact) in message for fact in facts if fact is not None)
    worker = worker_name(cause.role, cause.replica, cause.worker)
    if subject is None or (complete and (worker is None or worker in message)):
        return message
    return f"{message} ({subject})"


def submitted_text(run: api.Run) -> str:
    """A remark about a newly submitted run: " (cycle, 3 turns)", " (interruptible)"; or empty."""
    if run.mode == BATCH:
        return ""
    turns = run.max_turns
    turns_text = f", {turns} turn{'s' if turns != 1 else ''}" if turns else ""
    return f" ({run.mode}{turns_text})"


def turns_text(run: api.Run) -> str:
    """The number of completed turns of a cycle run: "2 of 3"; empty for other runs."""
    return f"{run.turns} of {run.max_turns}" if run.max_turns else ""


def cycle_text(run: api.Run) -> str:
    """The results of a cycle run's turns, so far or at its end; empty for other runs."""
    if not run.max_turns:
        return ""
    report = run.cycle_report
    if report is None:
        return "nothing is shown yet"
    over = run.state == "ended"
    head = "pause and resume proven" if report.proven else "pause and resume unproven"
    if not report.proven and not over:
        head = "not proven yet"
    return f"{head}: {', '.join(_milestones(report, over=over))}"


def block_text(share: Share | None, attempts: Sequence[api.Attempt], now: float) -> str:
    """The guarantee of an interruptible run: "30m 00s of the period begun 14m ago, 12m 00s used ..."."""
    if share is None:
        return ""
    used_s = share.used_s
    if attempts and attempts[-1].ended_at is None:
        used_s += max(0.0, now - max(attempts[-1].created_at, share.period_at))
    parts = [
        f"{duration(share.allotted_s)} of the period begun {age(share.period_at, now)}",
        f"{duration(used_s)} used",
    ]
    if share.credit_s > 0:
        parts.append(f"{duration(share.credit_s)} owed from before")
    return ", ".join(parts)


def state_detail(client: Client, summary: RunSummary) -> str:
    """The detail text of a new state: "turn 2 of 3", "preempted by digits (r1)", lost work.

    `summary` is a `state` message. A request is sent only for states that have such a text.
    """
    state, identifier = summary.state, summary.id
    if state == "running" and summary.mode == CYCLE:
        run = client.run(identifier)
        return f"turn {min(run.turns + 1, run.max_turns or 1)} of {run.max_turns}"
    if state == "preempting" or (state == "queued" and summary.attempt):
        return _leave_reason(client, identifier, again=state == "queued")
    if state == "paused" and summary.attempt:
        return lost_text(client.attempts(identifier))
    return ""


def _leave_reason(client: Client, identifier: str, *, again: bool) -> str:
    """Why the scheduler preempted the newest attempt; empty if a run queued `again` was not preempted."""
    events = [event for event in client.events(identifier) if event.event != "reordered"]
    requests = [event for event in events if event.event == "preempt_requested"]
    if not requests or (again and [event.event for event in events[-2:]] != ["preempt_requested", "vacated"]):
        return ""
    detail = requests[-1].detail
    match detail.get("reason"):
        case "turn_over":
            run = client.run(identifier)
            turn = run.turns + (run.state == "preempting")
            return f"turn {turn} of {run.max_turns} is over"
        case "reserved":
            return "its node is reserved for others"
        case "node_leaves":
            return "its node left the cluster"
        case "reclaimed":
            return "the provider takes its rented machines back"
        case "pool_changed":
            return "moving to another pool"
        case _:
            other = detail.get("for")
            return f"preempted by {named(client.run(other))}" if other else "preempted"


def named(run: api.Run) -> str:
    """A run by its name and id."""
    return f"{run.name} ({run.id})"


def _after(seconds: float) -> str:
    return "at once" if seconds < 0.05 else f"after {duration(seconds)}"


def _milestones(report: api.CycleReport, *, over: bool) -> Sequence[str]:
    first_s = report.first_output_s
    output = "no output was seen" if first_s is None else f"first output {_after(first_s)}"
    if report.committed:
        read = "a later turn read it" if report.resumed else "no later turn read it"
        if not report.resumed and over and report.turns <= 1:
            read = "there was no second turn to read it"
        left = "a checkpoint was left" if report.kept else "a checkpoint was left, but none was kept"
        return output, left, read
    return output, "no checkpoint was left"


_HOLDING = frozenset({"running", "pausing", "preempting"})


def lost_text(attempts: Sequence[api.Attempt]) -> str:
    """The work that the newest attempt lost, if it ended and another may follow."""
    lost = attempts[-1].lost if attempts else None
    return "" if lost is None else loss_text(*astuple(lost))


def checkpoint_text(state: str, attempts: Sequence[api.Attempt], now: float) -> str:
    """The age of the newest checkpoint of a working run: later work would be lost now."""
    if state not in _HOLDING:
        return ""
    seen = (attempt.milestones for attempt in reversed(attempts))
    newest = next((milestones for milestones in seen if milestones.checkpoint_at is not None), None)
    if newest is None:
        return "none yet"
    step = newest.checkpoint_step
    return age(newest.checkpoint_at, now) + (f", at step {step}" if step is not None else "")

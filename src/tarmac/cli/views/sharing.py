"""How a run shares its pool over time, in words: turns and the cycle report, blocks, preemption.

Used by `show`, `ls`, `why` and followers.
"""

from collections.abc import Sequence

from msgspec.structs import astuple

from tarmac import api
from tarmac.cli.views.amounts import age, duration
from tarmac.cli.views.messages import BATCH, CYCLE
from tarmac.client import Client
from tarmac.model.progress import Share, loss_text
from tarmac.model.summary import RunSummary


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
        case "node_leaves":
            return "its node left the cluster"
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

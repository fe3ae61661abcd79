"""Draws docs/using/lifecycle.md from the tables in `tarmac.model.lifecycle`, so that it cannot drift.

Called by people after a change of the tables (`python tools/lifecycle_diagram.py`) and by the tidy test
(`--check`: fails when the page is not what would be written). The prose of each state stands here, because
a new state without an explanation should fail as loudly as one without a diagram.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tarmac.model.lifecycle import (
    ATTEMPT_TABLE,
    INITIAL_EVENT,
    INITIAL_STATE,
    OCCUPYING_STATES,
    RUN_TABLE,
    TERMINAL_STATES,
    AttemptState,
    RunEvent,
    RunState,
)

PAGE = Path(__file__).resolve().parents[1] / "docs/using/lifecycle.md"

STATES = {
    RunState.PENDING: (
        "its code to be copied into the snapshot store",
        "the server, as part of accepting it; a server that comes back after a crash finishes the copy",
    ),
    RunState.QUEUED: (
        "the ends of the runs that it comes after, then free slots and its turn",
        "the scheduling loop; `tarmac why` says what stands in the way",
    ),
    RunState.SUBMITTED: (
        "the queue of its cluster, for days if need be",
        "that cluster, when it gives the attempt nodes; `tarmac why` says what it says",
    ),
    RunState.STARTING: (
        "every worker of the new attempt to be running",
        "the runners on its nodes, through their reports",
    ),
    RunState.RUNNING: ("its workers to end", "the workers themselves, or somebody who asks them to leave"),
    RunState.PAUSING: (
        "the attempt to leave, as a person asked",
        "the workers within their grace, after it the runner",
    ),
    RunState.PAUSED: ("a person", "`tarmac resume` or `tarmac stop`; it holds no slots"),
    RunState.PREEMPTING: (
        "the attempt to leave, as the scheduler asked",
        "the workers within their grace, after it the runner; then it is queued again",
    ),
    RunState.STOPPING: (
        "the attempt to leave for good",
        "the workers within their grace, after it the runner",
    ),
    RunState.ENDED: ("nothing", "nobody: no event leaves this state"),
}
"""For each state: what is awaited, and who moves the run on."""

EVENTS = {
    RunEvent.ACCEPTED: "submitted, and durable",
    RunEvent.STAGED: "the code snapshot is complete, or there is no code",
    RunEvent.PLACED: "an allocation is granted; the next attempt begins",
    RunEvent.SUBMITTED: "given to a cluster with a queue of its own; the next attempt begins",
    RunEvent.GRANTED: "the cluster gave the attempt its nodes",
    RunEvent.STARTED: "every worker of the attempt runs",
    RunEvent.RELEASED: "replicas have ended while others go on: their slots are free",
    RunEvent.PAUSE_REQUESTED: "a person asks for a pause",
    RunEvent.ATTEMPT_PAUSED: "the attempt left as asked",
    RunEvent.RESUME_REQUESTED: "a person asks to go on",
    RunEvent.PREEMPT_REQUESTED: "the scheduler needs the slots",
    RunEvent.VACATED: "the preempted attempt left, or its cluster ended its job, as at its wall time",
    RunEvent.RETRIED: "the attempt failed, and the retry budget is not spent",
    RunEvent.FAULTED: "the platform ended the attempt; costs no retry",
    RunEvent.DEPENDENCY_MET: "a run that it waits for has ended as it should",
    RunEvent.REORDERED: "a person gave it another place in the queue",
    RunEvent.SESSION_OPENED: "a person runs a command beside a worker, or reaches one of its ports",
    RunEvent.STOP_REQUESTED: "a person ends the run for good",
    RunEvent.FINISHED: "the last attempt ended, or the run can never be placed",
}
"""For each event: what has happened."""

FRAME = """\
# The lifecycle of a run

*This page is generated: `python tools/lifecycle_diagram.py` writes it from `src/tarmac/model/lifecycle.py`.*

A run is in one state at a time, and each state allows a long wait. Every change of state appends an event
to the run's history in the same transaction; replaying the history gives the stored state, as a test checks.
The SQL guards of the store are computed from the same table as this page, so an illegal step is refused
twice.

```mermaid
{diagram}
```

## States: what is awaited, and who moves the run on

{states}

The marked states are those with a live attempt, which holds slots; only an attempt that is `submitted` to a
cluster with a queue of its own holds none yet.

## Events: what has happened

{events}

## Attempts

An attempt is one interval of running; a run that is paused and resumed, retried or preempted has several,
numbered from 1. `state` names the awaited event, `outcome` the kind of end, and `cause` its reason, with the
worker, the node and the last lines if known.

{attempts}

On a node that can be cut off from the server an attempt has a lease, which the server renews whenever it
queries the attempt there, and the cluster while it reaches the node: a server may be down for longer.
The server gives up an unreachable node after some seconds, and starts the next attempt elsewhere. If the
node was only cut off, the older attempt notices that its lease has expired: its workers are asked to save as
at a pause, and it ends as `lost` with the cause `lease_expired`. Its files from then on do not count: the
[store](artifacts.md#one-attempt-counts) refuses an attempt that the server has
given up ([why](../contributing/decisions/0040-a-lease-shows-the-servers-contact.md)).
"""


def main() -> int:
    """Write the page, or with --check compare it."""
    page = render()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(page)
        return 0
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    print(f"{PAGE} is not current: run python tools/lifecycle_diagram.py")
    return 1


def render() -> str:
    """The whole page."""
    return FRAME.format(diagram=_diagram(), states=_states(), events=_events(), attempts=_attempts())


def _diagram() -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {INITIAL_STATE}: {INITIAL_EVENT}"]
    for state, following in RUN_TABLE.items():
        merged: dict[RunState, list[RunEvent]] = {}
        for event, target in following.items():
            merged.setdefault(target, []).append(event)
        lines += [f"    {state} --> {target}: {', '.join(events)}" for target, events in merged.items()]
    lines += [f"    {state} --> [*]" for state in sorted(TERMINAL_STATES)]
    return "\n".join(lines)


def _states() -> str:
    rows = [
        (f"`{state}`", *STATES[state], "yes" if state in OCCUPYING_STATES else "", _steps(state))
        for state in RUN_TABLE
    ]
    return _table(("state", "waits for", "moved on by", "slots held", "steps"), rows)


def _steps(state: RunState) -> str:
    return "<br>".join(f"`{event}` → `{target}`" for event, target in RUN_TABLE[state].items())


def _events() -> str:
    return _table(("event", "what has happened"), [(f"`{event}`", EVENTS[event]) for event in RunEvent])


def _attempts() -> str:
    def following(state: AttemptState) -> str:
        return ", ".join(f"`{target}`" for target in sorted(ATTEMPT_TABLE[state]))

    return _table(("state", "may become"), [(f"`{state}`", following(state)) for state in ATTEMPT_TABLE])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())

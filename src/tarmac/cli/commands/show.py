"""`tarmac show`: show one run on one page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_json, print_text, print_verbatim, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import flag, run_argument
from tarmac.cli.selecting import means_all
from tarmac.cli.views import messages
from tarmac.cli.views.amounts import age, duration, number, size, until
from tarmac.cli.views.metricview import NEWEST_REPORTS, not_finite, report_text
from tarmac.cli.views.queueview import place_text, use_text
from tarmac.cli.views.runview import ANNOTATIONS, array_text
from tarmac.cli.views.table import Column, Table, facts_text, table_text
from tarmac.cli.views.terminal import Terminal, one_line, stdout_terminal
from tarmac.model.errors import listed
from tarmac.model.progress import Event, WorkerStatus
from tarmac.systems.displays import as_option, display, with_statuses


def _delivery(message: api.Notification, now: float) -> str:
    """The delivery state of a message."""
    if message.sent_at is not None:
        return f"sent {age(message.sent_at, now)}"
    if message.due_at is None:
        return f"given up: {message.error}"
    again = f"to be sent {until(message.due_at, now)}"
    return again if message.error is None else f"{again}, after try {message.tries}: {message.error}"


ATTEMPTS: Table[api.Attempt] = (
    Column("ATTEMPT", lambda attempt, _: attempt.number, right=True),
    Column("STATE", lambda attempt, _: messages.state_cell(messages.state_of(attempt))),
    Column("NODES", lambda attempt, _: where_text(attempt), flexible=True),
    Column("STARTED", lambda attempt, now: age(attempt.started_at, now), right=True),
    Column("RAN", lambda attempt, now: duration(messages.elapsed_s(attempt, now)), right=True),
)
MESSAGES: Table[api.Notification] = (
    Column("TELLS OF", lambda message, _: message.occasion),
    Column("RECEIVER", lambda message, _: message.receiver),
    Column("WHEN", lambda message, now: age(message.at, now), right=True),
    Column("DELIVERY", _delivery, flexible=True),
)
EVENTS: Table[Event] = (
    Column("WHEN", lambda event, now: age(event.at, now), right=True),
    Column("EVENT", lambda event, _: event.event),
    Column("STATE", lambda event, _: messages.state_cell(event.state)),
    Column("BY", lambda event, _: event.actor, optional=True),
    Column("DETAIL", lambda event, _: _details(event), flexible=True),
)


@command()
@run_argument
@flag("--events", help="Also its history, event by event.")
@flag("--source", help="Only the run file it was submitted with, verbatim.")
@as_option
def show(*, run: str, events: bool, source: bool, system: str | None) -> None:
    """Show one run: its state, attempts, workers and the latest it reported."""
    client = connect()
    record = client.run(run)
    if means_all(record, run) and not (source or system):
        array = client.array(run)
        text = array_text(array, now=time.time(), terminal=stdout_terminal())
        answer({"array": array}, text)
        return
    if source:
        print_verbatim(record.source.removesuffix("\n") + "\n")
        return
    attempts = client.attempts(record.id)
    reports = client.reports(record.id, limit=NEWEST_REPORTS)
    history = client.events(record.id) if events or system else []
    notes = client.annotations(record.id)
    notifications = client.notifications(record.id)
    latest = reports[-1] if reports else None
    if wants_json():
        shown = record if system is None else with_statuses([record], system)[0]
        document = {
            "run": shown,
            "attempts": attempts,
            "report": latest,
            "annotations": notes,
            "notifications": notifications,
        }
        print_json({**document, "events": history} if events else document)
        return
    if system is not None:
        shown_as = display(system).prepared(client, [record.id])
        print_text(shown_as.run(record, attempts, stdout_terminal()))
        return
    now, terminal = time.time(), stdout_terminal()
    print_text(page(record, attempts, reports=reports, events=history, now=now, terminal=terminal))
    if notifications:
        print_text(f"\n{table_text(MESSAGES, notifications, terminal, now=now)}")
    if notes:
        print_text(f"\n{table_text(ANNOTATIONS, notes, terminal, now=now)}")


def page(
    run: api.Run,
    attempts: Sequence[api.Attempt],
    *,
    reports: Sequence[api.Report],
    events: Sequence[Event],
    now: float,
    terminal: Terminal,
) -> str:
    """The page: fields, attempts, the newest attempt's workers, and the history if requested."""
    parts = [
        "\n".join(_fields(run, attempts, reports, now, terminal)),
        table_text(ATTEMPTS, attempts, terminal, now=now) if attempts else "",
        table_text(_workers(attempts[-1]), attempts[-1].workers, terminal, now=now) if attempts else "",
        table_text(EVENTS, events, terminal, now=now) if events else "",
    ]
    return "\n\n".join(part for part in parts if part)


def where_text(attempt: api.Attempt) -> str:
    """The nodes of an attempt; before it has any, its name in the queue of its cluster."""
    native = attempt.native
    if attempt.nodes or attempt.granted_at is not None:
        return ", ".join(attempt.nodes)
    if native is None:
        return attempt.cluster
    words = f"{attempt.cluster}, job {native.id} {native.state}".rstrip()
    never = "never starts: " if native.stuck else ""
    reasons = ", ".join(filter(None, (f"{never}{native.reason}", place_text(native.place, native.waiting))))
    return f"{words} ({reasons})" if reasons else words


def _workers(attempt: api.Attempt) -> Table[WorkerStatus]:
    """The columns of an attempt's workers."""
    directory = f"{attempt.directory}/" if attempt.directory else ""
    return (
        Column("WORKER", lambda worker, _: messages.worker_name(worker.role, worker.replica, worker.index)),
        Column("NODE", lambda worker, _: worker.node),
        Column("PID", lambda worker, _: worker.pid or "", right=True),
        Column("STATE", lambda worker, _: messages.worker_cell(worker)),
        Column("RAN", lambda worker, now: duration(messages.elapsed_s(worker, now)), right=True),
        Column("LOG", lambda worker, _: f"{directory}{worker.log}", flexible=True, optional=True),
    )


def _details(event: Event) -> str:
    values = {
        key: " ".join(map(str, each)) if isinstance(each, list) else each
        for key, each in event.detail.items()
    }
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _fields(
    run: api.Run,
    attempts: Sequence[api.Attempt],
    reports: Sequence[api.Report],
    now: float,
    terminal: Terminal,
) -> Iterator[str]:
    """Name and value, one line each; fields that do not apply are left out."""
    state = messages.state_cell(messages.state_of(run))
    fields = {
        "run": run.id,
        "name": terminal.paint(messages.title(run), "bold"),
        "array": run.array_id or "",
        "state": terminal.paint(state.text, state.style),
        "cause": _cause(run) if run.outcome != "completed" else "",
        "exit": str(run.exit_status) if run.exit_status is not None else "",
        "slots": _slots(run, attempts),
        "mode": run.mode if run.mode != messages.BATCH else "",
        "turns": messages.turns_text(run),
        "report": messages.cycle_text(run),
        "block": messages.block_text(run.share, attempts, now) if run.state != "ended" else "",
        "after": after_text(run),
        "priority": str(run.priority) if run.priority else "",
        "weight": number(run.weight) if run.weight != 1 else "",
        "code": _code(run),
        "image": image_text(run.spec.get("environment", {}), attempts),
        "secrets": uses_text(run.spec.get("secrets", ())),
        "pool": run.pool or "",
        "project": run.project if run.project != "default" else "",
        "user": run.user,
        "runs as": run.spec.get("system_user", ""),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(run.labels.items())),
        "hook": "; ".join(run.spec.get("hook_changes", ())),
        "created": age(run.created_at, now),
        "started": age(run.started_at, now),
        "ran": _ran(attempts, now),
        "retries": _retries(run, now),
        "keeps away from": ", ".join(run.excluded_nodes),
        "saved": messages.checkpoint_text(run.state, attempts, now),
        "previous": _previous(attempts) if run.state != "ended" else "",
        "lost": messages.lost_text(attempts) if run.state != "ended" else "",
        "faults": f"{run.faults} (of the platform)" if run.faults else "",
        "preempted": _preempted(run, attempts),
        "uses": use_text(attempts[-1].utilization) if attempts else "",
        "latest": report_text(reports[-1]) if reports else "",
    }
    yield facts_text(fields, terminal)
    for warning in (*run.warnings, *not_finite(reports)):
        yield f"{terminal.paint('warning'.ljust(9), 'yellow')} {one_line(warning)}"
    for notice in _notices(attempts):
        yield f"{terminal.paint('notice'.ljust(9), 'yellow')} {one_line(notice)}"
    tail = run.cause.tail if run.cause else []
    if tail:
        yield terminal.paint("its last lines", "dim")
    for line in tail:
        yield f"  {terminal.paint('|', 'dim')} {line}"


def _notices(attempts: Sequence[api.Attempt]) -> Iterator[str]:
    """Notices from the nodes of the newest attempt, oldest first; equal ones of several nodes appear once."""
    if not attempts:
        return
    sayers: dict[str, dict[str, None]] = {}
    for notice in sorted(attempts[-1].notices, key=lambda notice: notice.at):
        sayers.setdefault(notice.text, {})[notice.node] = None
    for text, nodes in sayers.items():
        yield f"{text} (on {listed(list(nodes), 1)})" if len(attempts[-1].nodes) > 1 else text


def after_text(run: api.Run) -> str:
    """The runs that this run depends on, and whether each condition is met."""
    words = {True: "met", False: "awaited" if run.state != "ended" else "not met"}
    return ", ".join(
        f"{each.name} ({each.run_id}, {each.condition}: {words[each.met]})" for each in run.dependencies
    )


def _retries(run: api.Run, now: float) -> str:
    """The retries used, not counting the failure that ended the run, and the time of the next try."""
    retries = run.spec.get("retries", 0)
    last = run.outcome == "failed" and run.failures > 0
    used = f"{min(run.failures - last, retries)} of {retries} used" if retries else ""
    if run.retry_at is None or run.retry_at <= now:
        return used
    return f"{used}{used and ', '}next try {until(run.retry_at, now)}"


def _slots(run: api.Run, attempts: Sequence[api.Attempt]) -> str:
    """The number of requested slots, and how many of them its newest attempt has released."""
    if not attempts or attempts[-1].ended_at is not None:
        return str(run.slots)
    freed = [placement for placement in attempts[-1].placements if placement.released_at is not None]
    count = sum(len(placement.slots) for placement in freed)
    names = [f"{placement.role}.{placement.replica}" for placement in freed]
    who = names[0] if len(names) == 1 else f"{len(names)} replicas"
    has = "has" if len(names) == 1 else "have"
    return f"{run.slots}" + (f", {count} of them free again: {who} {has} ended" if count else "")


def _ran(attempts: Sequence[api.Attempt], now: float) -> str:
    """The total running time of its attempts, without the waits between them."""
    times = [ran for attempt in attempts if (ran := messages.elapsed_s(attempt, now)) is not None]
    if not times:
        return ""
    return duration(sum(times)) + (f" in {len(times)} attempts" if len(times) > 1 else "")


def _code(run: api.Run) -> str:
    """The code of a run: its source, and the commit or the snapshot."""
    code = run.spec.get("code")
    if code is None:
        return ""
    if "url" in code:
        named = run.code_commit or code.get("commit") or code.get("branch")
        return f"{code['url']} at {named}" if named else f"{code['url']}"
    return f"{code['path']}" + (f" as {run.code_digest[:12]}" if run.code_digest else "")


def _previous(attempts: Sequence[api.Attempt]) -> str:
    """The end of the previous attempt, if its cluster or the platform ended it."""
    over = [attempt for attempt in attempts if attempt.outcome is not None]
    if not over or over[-1].outcome not in ("preempted", "lost") or over[-1].cause is None:
        return ""
    last, cause = over[-1], over[-1].cause
    return one_line(f"attempt {last.number} was {last.outcome}: {cause.message}")


def _preempted(run: api.Run, attempts: Sequence[api.Attempt]) -> str:
    """The number of preemptions, and how many of them were at the end of its job's wall time."""
    if not run.preemptions:
        return ""
    causes = [attempt.cause for attempt in attempts if attempt.outcome == "preempted"]
    walls = sum(cause is not None and cause.code == "wall_time" for cause in causes)
    ends = f", {_times(walls)} at the end of its job's wall time" if walls else ""
    return f"{_times(run.preemptions)} (costs no retry){ends}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _cause(run: api.Run) -> str:
    cause = run.cause
    return one_line(cause.message or messages.culprit(cause) or cause.code) if cause is not None else ""


def image_text(environment: Mapping[str, Any], attempts: Sequence[api.Attempt]) -> str:
    """The image of a run, with its digest if known, and how the newest attempt obtained it."""
    name = environment.get("image")
    if name is None or environment.get("without_container"):
        return ""
    image = attempts[-1].milestones.image if attempts else None
    if image is None:
        return str(name)
    known = f"{name}, {image.digest}" if image.digest else str(name)
    if not image.source:
        return f"{known} (which its nodes had)" if image.digest else known
    come = size(image.fetched_bytes)
    if not image.digest:
        return f"{known} ({come} of {size(image.total_bytes)} pulled from {image.source})"
    return f"{known} ({come} from {image.source} in {duration(image.fetch_s)})"


def uses_text(uses: Sequence[Mapping[str, str]]) -> str:
    """The secrets of a run: their names, and the variables that hold them."""
    return ", ".join(
        f"{use['variable']} from {use['name']}" if "variable" in use else f"{use['name']} ({use['form']})"
        for use in uses
    )

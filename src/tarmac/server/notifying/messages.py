"""The content of messages: text for people, JSON for programs. Pure. Called by `sending` and `webhooks`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.model.notification import Notification, Occasion
from tarmac.sched.placing.reasons import duration

LONGEST_CAUSE = 500
MOST_RUNS = 50
"""Maximum runs in one message for people."""

_VERBS = {
    Occasion.STARTED: "has started",
    Occasion.WAITING: "is waiting",
    Occasion.COMPLETED: "has completed",
    Occasion.FAILED: "has failed",
    Occasion.STOPPED: "was stopped",
    Occasion.IDLE: "uses none of its slots",
    Occasion.CREDITS: "is running low on credits",
    Occasion.BURST: "is a burst run",
}


def subject(batch: Sequence[Notification]) -> str:
    """One line: the run and its event, or the number of runs and their events."""
    if len(batch) == 1:
        return f"{_name(batch[0])} {_VERBS[batch[0].occasion]}"
    counts = Counter(message.occasion for message in batch)
    return f"{len(batch)} messages: {_listed(counts)}"


def text(batch: Sequence[Notification]) -> str:
    """The message for people: a paragraph for each run."""
    parts = [_paragraph(message) for message in batch[:MOST_RUNS]]
    if len(batch) > MOST_RUNS:
        parts.append(f"and {len(batch) - MOST_RUNS} more: tarmac ls")
    return "\n\n".join(parts)


def event(message: Notification) -> dict[str, Any]:
    """The JSON of a webhook. `id` stays the same when the message is sent again."""
    return {
        "id": f"{message.run_id}:{message.key}",
        "type": f"run.{message.occasion}",
        "at": message.at,
        "server": message.server,
        "run": dict(message.about),
    }


def slack(batch: Sequence[Notification]) -> dict[str, str]:
    """The JSON for Slack. Names in it cannot mention people or make links."""
    plain = f"{subject(batch)}\n{text(batch)}" if len(batch) > 1 else text(batch)
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        plain = plain.replace(mark, entity)
    return {"text": plain}


def _name(message: Notification) -> str:
    return f"{_line(message.about['name'])} ({message.about['id']})"


def _paragraph(message: Notification) -> str:
    about = message.about
    cause = about["cause"]
    is_bad = message.occasion in (Occasion.FAILED, Occasion.STOPPED)
    why = f": {_line(cause['message'])[:LONGEST_CAUSE]}" if cause and is_bad else ""
    if counts := about.get("members"):  # the outcomes of an array's members
        why += ": " + _listed(counts)
    slots = "1 slot" if about["slots"] == 1 else f"{about['slots']} slots"
    verb = "why" if message.occasion in (Occasion.WAITING, Occasion.IDLE, Occasion.BURST) else "show"
    lines = [
        f"{_name(message)} {_VERBS[message.occasion]}{_how_long(message)}{why}",
        f"user {about['user']}, project {about['project']}, {slots}",
        f"tarmac {verb} {about['id']}",
    ]
    return "\n".join(lines)


def _how_long(message: Notification) -> str:
    about = message.about
    if message.occasion is Occasion.CREDITS:
        return f": {about['used']:.1f} of {about['granted']:.1f} of {about['account']} are used"
    if message.occasion is Occasion.BURST:
        return f": {_line(about['text'])}"
    if message.occasion is Occasion.WAITING:
        return f" for {duration(about['waiting_s'])} now"
    if message.occasion is Occasion.IDLE:
        return f" for {duration(about['idle_s'])} now"
    if about["ended_at"] is not None and about["started_at"] is not None:
        return f" after {duration(max(about['ended_at'] - about['started_at'], 0.0))}"
    return ""


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _line(words: str) -> str:
    """The text on one line, without control characters for terminals or headers."""
    return "".join(one if one.isprintable() else " " for one in words)

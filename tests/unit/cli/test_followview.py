"""What a follower reads on both streams, and the JSON lines of the same."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from answers import a_chunk, a_notice, a_report, a_run, a_status
from tarmac.api.placement import Why, WhyEstimate
from tarmac.cli.views.followview import JsonView, TextView
from tarmac.cli.views.metricview import report_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.lifecycle import RunState

RUN: dict[str, Any] = {
    "id": "r1",
    "name": "digits",
    "outcome": "completed",
    "started_at": 10.0,
    "ended_at": 13.2,
    "cause": None,
    "warnings": [],
}
CAUSE: dict[str, Any] = {
    "code": "exit_code",
    "message": "worker main.1.0 on n-2 exited with code 7",
    "role": "main",
    "replica": 1,
    "worker": 0,
    "node": "n-2",
    "exit_code": 7,
    "signal": None,
    "tail": ["loading", "no such file"],
}
FAILED = {**RUN, "outcome": "failed", "cause": CAUSE}


class Streams:
    """A text view on two strings; `screen`: both on one terminal without colour."""

    def __init__(self, *, screen: bool = False, quiet: bool = False) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        terminal = Terminal(width=80 if screen else None)
        self.view = TextView(self.out, self.err, out_terminal=terminal, err_terminal=terminal, quiet=quiet)

    def log(self, text: str, replica: int = 0) -> None:
        self.view.log(a_chunk({"role": "main", "replica": replica, "worker": 0, "text": text}))


def summary(state: str, **more: Any) -> dict[str, Any]:
    return {"id": "r1", "state": state, "attempt": 1, **more}


def notice(text: str, attempt: int | None = None, node: str | None = None) -> dict[str, Any]:
    return {"text": text, "attempt": attempt, "node": node}


def test_a_run_that_completes() -> None:
    streams = Streams()
    streams.view.submitted(a_run(RUN))
    for state in ("pending", "queued", "starting"):
        streams.view.state(a_status(summary(state, attempt=0)), ())
    streams.view.state(a_status(summary("running")), ("n-1", "n-2"))
    streams.view.state(a_status(summary("running")), ("n-1", "n-2"))
    streams.log("hello\n")
    streams.view.end(a_run(RUN))
    assert streams.out.getvalue() == "hello\n"
    assert streams.err.getvalue() == (
        "tarmac: digits is run r1\ntarmac: running on n-1, n-2\ntarmac: completed in 3.2s\n"
    )


def test_what_setup_steps_write_is_no_output_of_the_run() -> None:
    """It goes to stderr, so that programs can read stdout; `tarmac logs` shows all in one place."""
    chunk = {"role": "setup", "replica": 0, "worker": 0, "text": "+ pip install x\n"}
    for quiet, out, err in ((False, "hello\n", "+ pip install x\n"), (True, "+ pip install x\nhello\n", "")):
        streams = Streams(quiet=quiet)
        streams.view.log(a_chunk(chunk))
        streams.log("hello\n")
        streams.view.finish()
        assert (streams.out.getvalue(), streams.err.getvalue()) == (out, err)


def test_a_run_that_is_paused_resumed_and_stopped() -> None:
    streams = Streams()
    streams.view.state(a_status(summary("pausing")), ())
    streams.view.state(a_status(summary("paused")), ())
    streams.view.state(a_status(summary("queued")), ())
    streams.view.state(a_status(summary("running", attempt=2)), ("n-1",))
    streams.view.state(a_status(summary("stopping", attempt=2)), ("n-1",))
    streams.view.end(a_run({**RUN, "outcome": "stopped", "cause": {"message": "ada asked for it"}}))
    assert streams.err.getvalue() == (
        "tarmac: pausing: its workers have been asked to leave\n"
        "tarmac: paused; it goes on with: tarmac resume r1\n"
        "tarmac: queued again\n"
        "tarmac: running on n-1, attempt 2\n"
        "tarmac: stopping: its workers have been asked to leave\n"
        "tarmac: stopped after 3.2s: ada asked for it\n"
    )


def test_a_failure_names_worker_node_and_code_with_the_last_lines() -> None:
    streams = Streams()
    streams.log("unrelated\n", replica=0)
    streams.view.end(a_run(FAILED))
    assert streams.err.getvalue() == (
        "error: digits failed after 3.2s: worker main.1.0 on n-2 exited with code 7\n"
        "  its last lines:\n"
        "  | loading\n"
        "  | no such file\n"
        "  hint: everything it wrote: tarmac logs r1 --role main --replica 1\n"
    )


def test_last_lines_are_not_repeated_when_they_were_just_shown() -> None:
    streams = Streams()
    streams.log("loading\nno such file\n", replica=1)
    streams.view.end(a_run(FAILED))
    assert "its last lines" not in streams.err.getvalue()


def test_last_lines_among_those_of_others_are_told_again() -> None:
    streams = Streams()
    streams.log("unrelated\n", replica=0)
    streams.view.expect([("main", replica, 0) for replica in (0, 1)])
    streams.log("loading\nno such file\n", replica=1)
    streams.view.end(a_run(FAILED))
    assert "  its last lines:\n  | loading\n  | no such file\n" in streams.err.getvalue()


def test_a_message_that_leaves_out_the_worker_is_completed() -> None:
    streams = Streams()
    streams.view.end(a_run({**FAILED, "cause": {**CAUSE, "message": "the program failed", "tail": []}}))
    assert streams.err.getvalue().splitlines()[0] == (
        "error: digits failed after 3.2s: the program failed (worker main.1.0 on node n-2 exited with code 7)"
    )


def test_a_signal_is_named() -> None:
    cause = {**CAUSE, "message": "", "exit_code": None, "signal": "SIGKILL", "tail": []}
    streams = Streams()
    streams.view.end(a_run({**FAILED, "cause": cause}))
    assert "worker main.1.0 on node n-2 was ended by SIGKILL" in streams.err.getvalue()


def test_a_remark_does_not_cut_a_line_on_the_same_screen() -> None:
    streams = Streams(screen=True)
    streams.log("half a line")
    streams.view.notice(a_notice(notice("the server broke off")))
    streams.view.notice(a_notice(notice("and again")))
    assert streams.err.getvalue() == "\ntarmac: the server broke off\ntarmac: and again\n"


def test_what_is_so_on_every_node_is_remarked_once_for_each_attempt() -> None:
    streams = Streams()
    for attempt, node in ((1, "n-1"), (1, "n-2"), (2, "n-1"), (None, None), (None, None)):
        streams.view.notice(a_notice(notice("no mounts here" if node else "broke off", attempt, node)))
    result_text = ["no mounts here", "no mounts here", "broke off", "broke off"]
    assert streams.err.getvalue() == "".join(f"tarmac: {text}\n" for text in result_text)


def test_a_run_that_gives_way_and_one_in_turns() -> None:
    """I11: turns are counted; and the text names the run that preempted."""
    streams = Streams()
    streams.view.state(a_status(summary("running")), ("n-1",), "turn 1 of 2")
    streams.view.state(a_status(summary("preempting")), (), "turn 1 of 2 is over")
    streams.view.state(a_status(summary("queued")), (), "turn 1 of 2 is over")
    streams.view.state(a_status(summary("running", attempt=2)), ("n-1",))
    streams.view.state(a_status(summary("queued", attempt=2)), (), "preempted by urgent (r9)")
    assert streams.err.getvalue() == (
        "tarmac: running on n-1, turn 1 of 2\n"
        "tarmac: turn 1 of 2 is over: its workers have been asked to leave\n"
        "tarmac: queued again\n"
        "tarmac: running on n-1, attempt 2\n"
        "tarmac: preempted by urgent (r9); queued again\n"
    )


def test_a_wait_is_told_with_its_likely_end_where_that_is_known() -> None:
    headline = "queued: it waits for 2 slots"
    why = Why(run_id="r1", state=RunState.QUEUED, headline=headline, ahead=1, unblocked_by="Later.")
    text = "It is likely to start in 2 min."
    known = WhyEstimate(start_at=1.0, latest_at=None, basis="history", text=text)
    unknown = WhyEstimate(start_at=None, latest_at=None, basis="history", text="Nobody knows.")
    streams = Streams()
    streams.view.waiting(replace(why, estimate=known))
    streams.view.waiting(replace(why, estimate=unknown))
    assert streams.err.getvalue() == (
        "tarmac: queued: it waits for 2 slots; 1 ahead of it. It is likely to start in 2 min "
        "(tarmac why r1)\n"
        "tarmac: queued: it waits for 2 slots; 1 ahead of it. Later (tarmac why r1). "
        "Ctrl-C leaves it queued, tarmac stop r1 ends it\n"
    )


def test_waiting_and_progress() -> None:
    streams = Streams()
    why = Why(run_id="r1", state=RunState.QUEUED, headline="queued: it waits for 2 slots", ahead=3)
    streams.view.waiting(why)
    streams.view.waiting(replace(why, ahead=0, unblocked_by="It starts when r0 has ended."))
    streams.view.report(a_report({"progress": 0.25, "step": 120, "metrics": {"loss": 0.5, "acc": 0.9}}))
    assert streams.err.getvalue() == (
        "tarmac: queued: it waits for 2 slots; 3 ahead of it (tarmac why r1). "
        "Ctrl-C leaves it queued, tarmac stop r1 ends it\n"
        "tarmac: queued: it waits for 2 slots. It starts when r0 has ended (tarmac why r1). "
        "Ctrl-C leaves it queued, tarmac stop r1 ends it\n"
        "tarmac: 25%, step 120, acc 0.9, loss 0.5\n"
    )
    assert report_text(a_report({"progress": None, "step": None, "metrics": {}})) == "a report without values"


def test_detaching_says_how_to_come_back() -> None:
    streams = Streams()
    streams.view.detached("r1")
    assert streams.err.getvalue() == (
        "tarmac: detached; the run goes on\n"
        "  follow it again: tarmac logs -f r1\n"
        "  end it:          tarmac stop r1\n"
    )


def test_quiet_leaves_out_what_is_as_expected() -> None:
    streams = Streams(quiet=True)
    streams.view.state(a_status(summary("running")), ("n-1",))
    streams.view.end(a_run(RUN))
    assert streams.err.getvalue() == ""
    streams.view.state(a_status(summary("paused")), ())
    streams.view.end(a_run(FAILED))
    paused, failed, *_ = streams.err.getvalue().splitlines()
    assert paused == "tarmac: paused; it goes on with: tarmac resume r1"
    assert failed.startswith("error: digits failed")


def test_warnings_are_shown_at_submission() -> None:
    streams = Streams()
    streams.view.submitted(a_run({**RUN, "warnings": ["'gpus' is read as 'slots'"]}))
    assert streams.err.getvalue() == "warning: 'gpus' is read as 'slots'\ntarmac: digits is run r1\n"


def test_json_lines() -> None:
    out = io.StringIO()
    view = JsonView(out)
    view.submitted(a_run(RUN))
    view.expect([])
    view.log(a_chunk({"role": "main", "text": "a\nb"}))
    view.state(a_status(summary("running")), ("n-1",))
    view.notice(a_notice(notice("a notice", 1, "n-1")))
    view.waiting({"headline": "queued"})
    view.report(a_report({"step": 1}))
    view.detached("r1")
    view.end(a_run(RUN))
    view.finish()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "submitted",
        "log",
        "state",
        "notice",
        "waiting",
        "report",
        "detached",
        "end",
    ]
    assert lines[1] == {"event": "log", **to_builtins(a_chunk({"text": "a\nb"}))}
    assert lines[2] == {"event": "state", "run": to_builtins(a_status(summary("running"))), "nodes": ["n-1"]}
    assert lines[3] == {"event": "notice", "text": "a notice", "attempt": 1, "node": "n-1"}
    assert lines[-1]["run"] == json.loads(msgspec.json.encode(a_run(RUN)))

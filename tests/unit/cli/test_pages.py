"""The pages that commands print, from the records of docs/using/api.md."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from answers import a_report, a_run, a_summary, an_attempt, an_event
from tarmac import api
from tarmac.api.clusters import Node
from tarmac.api.placement import NamedRun, Why, WhyEstimate
from tarmac.cli.commands.acts import result_text
from tarmac.cli.commands.nodes import node_table
from tarmac.cli.commands.show import page
from tarmac.cli.commands.why import explanation
from tarmac.cli.views.metricview import not_finite, report_table, report_text
from tarmac.cli.views.runview import ListedRun, column_names, ordered, run_pieces, sort_keys
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import NodeState
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunState
from tarmac.model.resources import Reason, ReasonCode

NOW = 1000.0
PLAIN = Terminal()


def table_of_runs(runs: list[ListedRun], **how: Any) -> str:
    return "\n".join(run_pieces(runs, now=NOW, terminal=PLAIN, **how))


def fields(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "id": "r1",
        "name": "digits",
        "project": "default",
        "user": "ada",
        "state": "running",
        "outcome": None,
        "mode": "batch",
        "priority": 0,
        "slots": 2,
        "cluster": "local",
        "created_at": 880.0,
        "started_at": 940.0,
        "ended_at": None,
        "message": None,
    }
    return {**whole, **changes}


def summary(**changes: Any) -> ListedRun:
    return convert(to_builtins(a_summary(fields(**changes))), ListedRun)


def test_runs() -> None:
    failed = summary(
        id="r0", state="ended", outcome="failed", ended_at=943.5, message="main.0.0 exited with 7"
    )
    rehearsed = summary(id="r2", state="queued", cluster="rehearsal-r2", started_at=None)
    assert table_of_runs([rehearsed, summary(), failed]) == (
        "RUN  NAME    STATE    SLOTS  CLUSTER    CREATED     RAN  WHY\n"
        "r2   digits  queued       2  rehearsal   2m ago\n"
        "r1   digits  running      2  local       2m ago  1m 00s\n"
        "r0   digits  failed       2  local       2m ago    3.5s  main.0.0 exited with 7"
    )


def test_a_long_cause_is_cut_in_a_pipe_too() -> None:
    failed = summary(outcome="failed", state="ended", message="a link that leads out; " * 200)
    _, row = table_of_runs([failed], columns=["why"]).splitlines()
    assert len(row) <= 300
    assert row.endswith("…")


def test_columns_are_chosen_by_name() -> None:
    run = summary(outcome="failed", state="ended", ended_at=940.0, project="vision")
    assert table_of_runs([run], columns=column_names("id,Project,state,ended")) == (
        "RUN  PROJECT  STATE    ENDED\nr1   vision   failed  1m ago"
    )


def test_runs_are_sorted_by_several_columns_and_what_has_no_value_is_last() -> None:
    runs = [
        summary(id="a", slots=1, ended_at=None),
        summary(id="b", slots=2, ended_at=950.0),
        summary(id="c", slots=1, ended_at=960.0),
    ]
    assert [run.id for run in ordered(runs, sort_keys("slots,-ended"), now=NOW)] == ["c", "a", "b"]
    assert [run.id for run in ordered(runs, sort_keys("-run"), now=NOW)] == ["c", "b", "a"]


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidInput) as refusal:
        sort_keys("-crated,nonsense")
    first, second = refusal.value.problems
    assert (first.message, first.hint) == ("there is no column 'crated'", "did you mean created?")
    assert str(second.hint).startswith("known: run, name, state")


def test_users_are_told_apart_where_there_are_several() -> None:
    table = table_of_runs([summary(), summary(user="bob")])
    assert "USER" in table.splitlines()[0]
    assert "bob" in table


def held(run_id: str, name: str, slots: int) -> dict[str, Any]:
    """A run on a node."""
    return {"id": run_id, "name": name, "user": "ada", "slots": slots, "indexes": list(range(slots))}


def node(**changes: Any) -> Node:
    usual = {
        "name": "n-1",
        "cluster": "local",
        "pool": "default",
        "shard": None,
        "hostname": "n-1",
        "address": "127.0.0.1",
        "state": "up",
        "reason": "",
        "drain": None,
        "slot_type": "h100",
        "slots": 8,
        "slots_used": 6,
        "cpus": 16.0,
        "memory_bytes": 2**35,
        "own_disk": False,
        "runs": [held("r1", "digits", 4), held("r2", "b", 2)],
    }
    return convert({**usual, **changes}, Node)


def test_nodes() -> None:
    drain = {"user": "ada", "reason": "fan"}
    drained = node(name="n-2", state="drained", slots_used=0, runs=[], reason="fan", drain=drain)
    known = [node(), drained]
    assert node_table(known, PLAIN) == (
        "NODE  STATE    FREE  SLOTS  TYPE  CLUSTER  CPUS  MEMORY  ADDRESS    HELD BY            REASON\n"
        "n-1   up          2      8  h100  local      16  32 GiB  127.0.0.1  digits (4), b (2)\n"
        "n-2   drained     8      8  h100  local      16  32 GiB  127.0.0.1                     fan (ada)"
    )


def test_many_nodes_are_shown_in_groups() -> None:
    place = {"cluster": "site-a", "pool": "big", "shard": "left"}
    busy = node(**place, slots_used=8, runs=[held("r1", "digits", 8)])
    idle = node(**place, slots_used=0, runs=[])
    known = [busy] * 30 + [idle] * 20 + [replace(idle, state=NodeState.DRAINED, pool="small")]
    assert node_table(known, PLAIN, grouped=True) == (
        "CLUSTER  POOL   SHARD  STATE    NODES  TYPE   SLOTS  FREE  IDLE NODES  RUNS\n"
        "site-a   big    left   up          50  h100  50 x 8   160          20     1\n"
        "site-a   small  left   drained      1  h100   1 x 8     8           1     0"
    )


def test_why() -> None:
    answer = Why(
        run_id="r1",
        state=RunState.QUEUED,
        headline="queued: it waits for 3 slots",
        reasons=(
            Reason(code=ReasonCode.GANG, text="all or none starts"),
            Reason(code=ReasonCode.BUSY, text="0 of 8 slots free", node="n-1"),
            Reason(code=ReasonCode.NODE_DRAINED, text="drained", node="n-2"),
            *(Reason(code=ReasonCode.BUSY, text="0 of 8 slots free", node=f"n-{n}") for n in range(3, 9)),
        ),
        ahead=3,
        ahead_first=(NamedRun(id="r2", name="digits"), NamedRun(id="r3", name="other")),
        awaits=1,
        awaits_first=(NamedRun(id="r4", name="held"),),
        unblocked_by="It starts when r0 has ended. With 2 slots it would start at once.",
        estimate=WhyEstimate(start_at=1.0, latest_at=2.0, basis="history", text="likely in 12 min"),
        lost="12 s of work since the checkpoint at step 40",
    )
    assert explanation(answer, PLAIN) == (
        "queued: it waits for 3 slots\n"
        "  lost: 12 s of work since the checkpoint at step 40\n"
        "  all or none starts\n"
        "  ahead of it: digits (r2), other (r3) and 1 more run\n"
        "  likely in 12 min\n"
        "  It starts when r0 has ended.\n"
        "  With 2 slots it would start at once.\n"
        "\n"
        "NODE                           REASON\n"
        "n-1, n-3, n-4, n-5 and 3 more  0 of 8 slots free\n"
        "n-2                            drained"
    )


def test_a_long_reason_is_broken_between_words() -> None:
    reason = "pool compute-pool-of-a-long-name: all 48 slots of 6 nodes start together or not at all"
    answer = Why(
        run_id="r1",
        state=RunState.QUEUED,
        headline="queued: it waits for 48 slots",
        reasons=(Reason(code=ReasonCode.GANG, text=reason),),
    )
    _, *lines = explanation(answer, Terminal(width=30)).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= len("  pool compute-pool-of-a-long-name:")
    assert " ".join(lines).split() == reason.split()


def test_the_changes_of_a_submission_hook_are_shown_with_their_reasons() -> None:
    change = "the site's hook set pool to small: night queue"
    why = Why(run_id="r1", state=RunState.QUEUED, headline="queued: it waits", hook_changes=(change,))
    assert explanation(why, PLAIN) == f"queued: it waits\n  {change}"
    run = a_run({**failed_run(), "spec": {"hook_changes": [change]}})
    text = page(run, [], reports=[], events=[], now=NOW, terminal=PLAIN)
    assert f"hook      {change}\n" in text


def test_metrics() -> None:
    reports: Any = [
        {"at": 990.0, "attempt": 1, "node": "n-1", "step": 1, "progress": 0.5, "metrics": {"loss": 0.25}},
        {"at": 1000.0, "attempt": 1, "node": "n-1", "step": 2, "progress": None, "metrics": {"acc": 1.0}},
    ]
    assert report_table([a_report(each) for each in reports], now=NOW, terminal=PLAIN) == (
        "   WHEN  STEP  PROGRESS  acc  loss\n10s ago     1       50%       0.25\n    now     2              1"
    )


def report(step: int | None, attempt: int = 1, **metrics: Any) -> api.Report:
    return a_report(
        {
            "at": 990.0,
            "attempt": attempt,
            "node": "n-1",
            "step": step,
            "progress": None,
            "metrics": metrics,
        }
    )


def test_metrics_of_every_kind_are_shown() -> None:
    """N8: numbers that are not finite, texts and truth values too."""
    reports = [report(1, loss="nan", note="warm-up", best=True), report(2, loss="-inf", note=None, lr=1e-5)]
    assert report_table(reports, now=NOW, terminal=PLAIN) == (
        "   WHEN  STEP  best       loss     lr     note\n"
        "10s ago     1  true        NaN         warm-up\n"
        "10s ago     2        -Infinity  1e-05"
    )
    assert report_text(reports[0]) == "step 1, best true, loss NaN, note warm-up"
    assert report_text(report(None, loss="\x1b[2J")) == "loss \ufffd[2J"


def test_a_metric_that_is_not_finite_is_flagged_since_when() -> None:
    reports = [report(step, loss=0.5, norm="nan" if step == 1 else 1.0) for step in range(4)]
    reports += [report(step, loss="nan") for step in (4, 5)] + [report(6, loss="inf", acc=1)]
    assert list(not_finite(reports)) == ["loss is Infinity since step 4"]
    assert list(not_finite([report(None, loss="nan")])) == ["loss is NaN"]
    assert list(not_finite([*reports, report(7, loss=0.25)])) == []


def failed_run() -> Any:
    cause = {"message": "worker main.0.0 exited with 7", "code": "exit_code", "tail": ["loading", "boom"]}
    return {
        **fields(state="ended", outcome="failed", ended_at=943.5),
        "exit_status": 7,
        "cause": cause,
        "priority": 5,
        "weight": 1.0,
        "pool": None,
        "turns": 0,
        "max_turns": None,
        "retry_at": None,
        "dependencies": [],
        "excluded_nodes": [],
        "array_id": None,
        "array_index": None,
        "native": None,
        "cycle_report": None,
        "share": None,
        "labels": {"team": "x"},
        "failures": 3,  # the last one ended it, and was no retry
        "faults": 0,
        "preemptions": 0,
        "warnings": ["no GPU was found"],
        "spec": {"retries": 2},
    }


def third_attempt() -> Any:
    worker = {
        "role": "main",
        "replica": 0,
        "index": 0,
        "node": "n-1",
        "log": "logs/main.0.0.log",
        "pid": 77,
        "started_at": 940.0,
        "ended_at": 943.0,
        "exit_code": 7,
        "signal": None,
    }
    return {
        "number": 3,
        "state": "ended",
        "outcome": "failed",
        "nodes": ["n-1"],
        "native": None,
        "granted_at": 930.0,
        "started_at": 940.0,
        "ended_at": 943.5,
        "directory": "/a",
        "lost": None,
        "workers": [worker],
        "notices": [{"at": 941.0, "node": "n-1", "text": "not available here: /data/x"}],
        "utilization": [],
    }


def test_a_run_on_one_page() -> None:
    event: Any = {"at": 880.0, "event": "accepted", "state": "pending", "detail": {"to": 3}, "actor": "ada"}
    latest: Any = {"progress": 0.5, "step": 3, "metrics": {}}
    text = page(
        a_run(failed_run()),
        [an_attempt(third_attempt())],
        reports=[a_report(latest)],
        events=[an_event(event)],
        now=NOW,
        terminal=PLAIN,
    )
    assert text == (
        "run       r1\n"
        "name      digits\n"
        "state     failed\n"
        "cause     worker main.0.0 exited with 7\n"
        "exit      7\n"
        "slots     2\n"
        "priority  5\n"
        "user      ada\n"
        "labels    team=x\n"
        "created   2m ago\n"
        "started   1m ago\n"
        "ran       3.5s\n"
        "retries   2 of 2 used\n"
        "latest    50%, step 3\n"
        "warning   no GPU was found\n"
        "notice    not available here: /data/x\n"
        "its last lines\n"
        "  | loading\n"
        "  | boom\n"
        "\n"
        "ATTEMPT  STATE   NODES  STARTED   RAN\n"
        "      3  failed  n-1     1m ago  3.5s\n"
        "\n"
        "WORKER    NODE  PID  STATE      RAN  LOG\n"
        "main.0.0  n-1    77  exited 7  3.0s  /a/logs/main.0.0.log\n"
        "\n"
        "  WHEN  EVENT     STATE    BY   DETAIL\n"
        "2m ago  accepted  pending  ada  to 3"
    )


def test_a_run_that_lost_work_says_so_and_that_a_metric_is_not_finite() -> None:
    """N8, I14: whoever resumes it knows from its page where it begins."""
    paused = {**failed_run(), "state": "paused", "outcome": None, "cause": None, "exit_status": None}
    lost = {"work_s": 90.0, "checkpoint_at": None, "step": None}
    attempt = {**third_attempt(), "outcome": "paused", "lost": lost}
    reports = [report(4, loss="nan"), report(5, loss="nan")]
    lines = page(
        a_run(paused), [an_attempt(attempt)], reports=reports, events=[], now=NOW, terminal=PLAIN
    ).splitlines()
    assert "lost      90 s of work; it has no checkpoint: it will start again at 0" in lines
    assert "warning   loss is NaN since step 4" in lines


def test_what_several_nodes_tell_alike_is_one_notice_of_the_newest_attempt() -> None:
    result_text = [("n-1", 2.0, "b"), ("n-1", 1.0, "a"), ("n-2", 3.0, "a"), ("n-3", 4.0, "a")]
    notices = [{"at": at, "node": node, "text": text} for node, at, text in result_text]
    newest = {**third_attempt(), "nodes": ["n-1", "n-2", "n-3"], "notices": notices}
    text = page(
        a_run(failed_run()),
        [an_attempt(third_attempt()), an_attempt(newest)],
        reports=[],
        events=[],
        now=NOW,
        terminal=PLAIN,
    )
    lines = [line for line in text.splitlines() if line.startswith("notice")]
    assert lines == ["notice    a (on n-1 and 2 more)", "notice    b (on n-1)"]


def test_what_is_told_after_asking() -> None:
    assert (
        result_text(summary(state="preempting"))
        == "digits (r1) is leaving its slots and will be queued again"
    )
    assert result_text(summary(state="ended", outcome="stopped")) == "digits (r1) has ended: stopped"

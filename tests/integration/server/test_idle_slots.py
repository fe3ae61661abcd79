"""Runs that leave their slots idle: reported to their owner, then paused, under virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Served, served
from sim_engine import Behaviour
from tarmac.control.reconcilers.idle import idle_pass
from tarmac.model.cluster import Pool
from tarmac.model.notification import Occasion
from tarmac.model.resources import NodeUtilization

LONG = "name: train\ncommand: sleep 1d\nslots: 1\n"
NOTIFY = "notify: [{to: 'https://hooks.slack.com/x', on: idle}]\n"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Served]:
    """A pool that reports after half an hour and pauses after two."""
    rules = Pool(cluster="local", idle_report_s=1800.0, idle_pause_s=7200.0)
    with served(tmp_path / "home", behaviour=lambda _: Behaviour(duration_s=1e6), pools=[rules]) as made:
        yield made


def begin(plane: Served, text: str = LONG) -> str:
    client = plane.client()
    submitted = client.submit(text).id
    plane.turn()
    plane.turn()
    assert client.run(submitted).state == "running"
    return submitted


def look(plane: Served, seconds: float, *runs: str, cpus: float = 0.0) -> None:
    """Let time pass, then let the loop look at these runs, which use this much."""
    plane.advance(seconds)
    now = plane.clock.now()
    for run in runs:
        measured = NodeUtilization(node="n1", at=now, memory_bytes=1 << 20, cpus=cpus)
        plane.engine.measured[f"{run}.1"] = [measured]
    idle_pass(plane.plane.control, plane.plane.control.engines.own)
    plane.turn()


def occasions(plane: Served, run: str) -> list[str]:
    return [each.occasion for each in plane.store.notifications.of_run(run)]


def test_an_idle_run_is_reported_once_then_paused(plane: Served) -> None:
    run, client = begin(plane, LONG + NOTIFY), plane.client()
    look(plane, 10.0, run)
    look(plane, 1790.0, run)
    assert occasions(plane, run) == []
    assert "uses none" not in client.why(run).headline
    look(plane, 10.0, run)
    look(plane, 60.0, run)
    [message] = plane.store.notifications.of_run(run)
    assert (message.occasion, message.about["idle_s"], message.about["id"]) == ("idle", 1800.0, run)
    assert "uses none of its slots for 31 min now" in client.why(run).headline
    look(plane, 7200.0, run)
    plane.advance(60.0)
    assert client.run(run).state == "paused"
    assert occasions(plane, run) == ["idle", "idle"]
    paused = next(each for each in client.events(run) if each.event == "pause_requested")
    assert (paused.detail["reason"], paused.detail["idle_s"], paused.actor) == ("idle", 9060, None)
    assert client.why(run).headline == (
        f"it is paused, because it used none of its slots for 3 h, until it is resumed: tarmac resume {run}"
    )
    client.resume(run)
    client.pause(run)
    assert "used none" not in client.why(run).headline


def test_the_time_counts_from_the_last_use(plane: Served) -> None:
    run = begin(plane, LONG + NOTIFY)
    look(plane, 10.0, run)
    look(plane, 1700.0, run, cpus=1.0)
    look(plane, 1700.0, run)
    look(plane, 1700.0, run)
    assert occasions(plane, run) == []
    look(plane, 100.0, run)
    assert occasions(plane, run) == ["idle"]


def test_a_run_that_reports_is_not_idle(plane: Served) -> None:
    run = begin(plane, LONG + NOTIFY)
    [node] = plane.client().attempts(run)[0].nodes
    look(plane, 10.0, run)
    for step in range(5):
        line = f'{{"at": {step}, "step": {step}, "metrics": {{"loss": 1}}}}\n'
        plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", line.encode())
        look(plane, 1700.0, run)
    assert occasions(plane, run) == []


def test_a_run_with_an_open_session_is_not_idle(plane: Served) -> None:
    run, attached = begin(plane, LONG + NOTIFY), plane.plane.control.attached
    attached[run] += 1
    for _ in range(10):
        look(plane, 1700.0, run)
    assert occasions(plane, run) == []
    attached[run] -= 1
    look(plane, 10.0, run)
    look(plane, 1800.0, run)
    assert occasions(plane, run) == ["idle"]


def test_a_run_without_measurements_or_slots_is_left_alone(plane: Served) -> None:
    unmeasured, slotless = begin(plane, LONG + NOTIFY), begin(plane, "command: x\n" + NOTIFY)
    for _ in range(10):
        look(plane, 1700.0, slotless)
    assert occasions(plane, unmeasured) == occasions(plane, slotless) == []


def test_a_pool_without_rules_pauses_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "home", behaviour=lambda _: Behaviour(duration_s=1e6)) as plane:
        run = begin(plane, LONG + NOTIFY)
        for _ in range(10):
            look(plane, 1700.0, run)
        assert occasions(plane, run) == []
        assert plane.client().run(run).state == "running"


def test_each_member_of_an_array_is_reported(plane: Served) -> None:
    plane.client().submit(LONG + NOTIFY + "array: 0-1\n")
    plane.turn()
    plane.turn()
    runs = [each.id for each in plane.client().runs().runs]
    look(plane, 10.0, *runs)
    look(plane, 1800.0, *runs)
    messages = [each for run in runs for each in plane.store.notifications.of_run(run)]
    assert sorted(each.about["id"] for each in messages) == sorted(runs)


def test_n18_an_idle_run_is_reported_to_its_users_own_receivers(plane: Served) -> None:
    client = plane.client()
    client.subscribe("https://192.0.2.1/x", on=(Occasion.IDLE,))
    run = begin(plane)
    look(plane, 10.0, run)
    look(plane, 1800.0, run)
    assert occasions(plane, run) == ["idle"]

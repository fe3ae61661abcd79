"""What runs report is taken exactly once, whenever the server is killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.admission import Submission
from tarmac.control.service import ControlPlane
from tarmac.control.state.metric_intake import MetricSubscriber
from tarmac.model.actor import Actor
from tarmac.model.metrics import MetricReport, SeriesKey
from tarmac.model.run import Run

REPORTS = 2500
PAD = "x" * 500
"""So that it is more than is read at one look."""

SUBMITTER = Actor(user="ada")
RUBBISH = "rubbish, of which there is a lot\n" * 5


def line(step: int) -> str:
    metrics = f'{{"loss": {step}.5, "pad": "{PAD}"}}'
    return f'{{"at": {step}.0, "step": {step}, "group": "validation", "metrics": {metrics}}}\n'


MANY = "".join(line(step) + (RUBBISH if step % 10 == 0 else "") for step in range(REPORTS)).encode()


def thousands(run: Run, report: MetricReport) -> Mapping[str, Any] | None:
    """What somebody might want of it: every thousandth step."""
    return {"of": run.id} if report.step is not None and report.step % 1000 == 0 else None


class Subscribed(Simulation):
    """Every server has a subscriber from its beginning."""

    def __init__(self, *, reports: bytes = MANY, duration_s: float = 3.0) -> None:
        self.told: list[str] = []
        super().__init__(
            behaviour=lambda _launch: Behaviour(duration_s=duration_s, reports=reports), cluster=nodes(1, 4)
        )

    def _plane(self) -> ControlPlane:
        plane = super()._plane()
        plane.control.metric_subscribers["test"] = MetricSubscriber(
            select=thousands, notify=lambda: self.told.append("told")
        )
        return plane


FLOOD = (b"x" * 50_000 + b"\n") * 1000


def stopped_after_turns(made: Simulation, run: str, turns: int) -> bool:
    """Whether a run has ended so many turns after it was asked to stop while it was running."""
    for _ in range(4):
        made.turn_all()
        made.clock.advance(0.5)
    made.server.plane.stop(SUBMITTER, run, at_once=True)
    for _ in range(turns):
        made.turn_all()
        made.clock.advance(0.5)
    return not list(made.store.live_runs())


def finish(made: Simulation) -> None:
    for _ in range(60):
        made.turn_all()
        made.clock.advance(0.5)
        if not list(made.store.live_runs()):
            return
    raise AssertionError("it has not ended")


def submit(made: Simulation) -> str:
    (accepted,) = made.server.plane.submit([Submission(spec=spec(slots=1), actor=SUBMITTER)])
    return accepted.run.id


def assert_taken_once(made: Simulation, run: str) -> None:
    key = SeriesKey(run_id=run, group="validation", name="loss")
    found = made.store.metrics.points([key])[key]
    assert list(found.steps) == list(range(REPORTS))
    assert list(found.values) == [step + 0.5 for step in range(REPORTS)]
    [summary] = made.store.metrics.summaries([run])
    assert summary.count == REPORTS, "none was counted twice"
    events = made.store.metrics.events("test", after_id=0)
    assert [event.step for event in events] == list(range(0, REPORTS, 1000))
    assert events[0].body == {"of": run}


def crash_at(number: int) -> Iterator[None]:
    """Crash at this call of `interrupt`; later ones pass."""
    for count in range(1, 10_000):
        if count == number:
            raise Crash
        yield
    raise AssertionError("never so many")


def test_reports_are_taken_once_and_all_of_them_before_the_end_is_recorded() -> None:
    made = Subscribed()
    run = submit(made)
    finish(made)
    assert_taken_once(made, run)
    assert made.told, "the subscriber is told"


def test_no_report_is_lost_or_doubled_by_a_crash_at_any_write() -> None:
    """Before and after every durable write, that of metrics included."""
    survived = 0
    for number in range(1, 100):
        made = Subscribed()
        run = submit(made)
        calls = crash_at(number)
        made.store.interrupt = lambda calls=calls: next(calls, None)
        finish(made)
        assert_taken_once(made, run)
        if made.crashes == 0:
            break
        survived += 1
    assert survived >= 12, "there are several writes, each with a moment before and after it"


def test_a_stop_does_not_wait_for_a_flood_of_reports() -> None:
    made = Subscribed(reports=FLOOD, duration_s=1000.0)
    assert stopped_after_turns(made, submit(made), turns=3)


def test_a_stop_does_not_wait_for_room_for_reports_and_an_end_does() -> None:
    """On a full disk the end of a run that was not stopped is recorded once its reports are."""
    made = Subscribed(duration_s=1000.0)
    made.store.metrics.disk_full = True
    assert stopped_after_turns(made, submit(made), turns=3)
    made = Subscribed()
    run = submit(made)
    made.store.metrics.disk_full = True
    for _ in range(20):
        made.turn_all()
        made.clock.advance(0.5)
    assert list(made.store.live_runs())
    made.store.metrics.disk_full = False
    finish(made)
    assert_taken_once(made, run)

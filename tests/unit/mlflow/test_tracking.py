"""Reports and states of runs at a tracking server of MLflow: each value once, in order, whatever fails (K10).

The tracking server is one in memory; `tests/e2e/test_mlflow.py` does the same with the real one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from math import inf, nan
from typing import Any

import pytest

from histories import attempt_of, new_run, placed, step
from memory_store import MemoryStore
from tarmac.control.state.metric_intake import MetricSubscriber, events_of
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunEvent
from tarmac.model.metrics import MetricReport, ReportBatch
from tarmac.model.notification import Failure, Notification, Occasion, Subscription
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.secret import SecretName, SecretUse
from tarmac.model.spec import Environment
from tarmac.server.notifying.sending import Sender
from tarmac.systems.mlflow.tracking import GIVES_UP_S, LONGEST_REST_S, Tracking
from tracking_server import MlflowServer, tracking_server

PASSWORD = "correct horse"


class Lab:
    """A store with runs that report, and a server's `Tracking` over it, which a crash replaces."""

    def __init__(self, mlflow: MlflowServer) -> None:
        self.mlflow, self.store, self.clock = mlflow, MemoryStore(), VirtualClock(1000.0)
        self.missing = False
        self._ends: dict[str, int] = {}
        self.crash()

    def crash(self, *, private_addresses: bool = True) -> None:
        self.tracking = Tracking(
            self.store, self._secrets, self.clock, server="local", private_addresses=private_addresses
        )

    def _secrets(self, names: Sequence[SecretName]) -> Mapping[str, str]:
        if self.missing:
            raise InvalidInput(f"there is no secret {names[0].name!r} any more")
        return {each.name: PASSWORD for each in names}

    def run(self, run_id: str = "r1", *, url: str | None = None, user: str = "ada", **fields: Any) -> Run:
        """A run with a tracking server; upper-case fields are variables."""
        variables = {name: fields.pop(name) for name in list(fields) if name.isupper()}
        variables = {"MLFLOW_TRACKING_URI": url or self.mlflow.url, **variables}
        new = new_run(run_id, user=user, environment=Environment(variables=variables), **fields)
        [run] = self.store.create_runs([new])
        return run

    def report(self, run: Run, *reports: MetricReport) -> None:
        """Store reports as the reconcile pass does."""
        select = {self.tracking.name: MetricSubscriber(self.tracking.select, self.tracking.note_events)}
        begin = self._ends.get(run.id, 0)
        self._ends[run.id] = begin + len(reports)
        batch = ReportBatch(
            run_id=run.id,
            attempt=1,
            node="node-1",
            begin=begin,
            end=self._ends[run.id],
            reports=reports,
            events=tuple(events_of(run, attempt_of(run), reports, select)),
        )
        assert self.store.metrics.take([batch]) == [True]
        self.tracking.note_events()

    def losses(self, run: Run, *steps: int) -> None:
        self.report(run, *(MetricReport(at=100.0 + at, step=at, values={"loss": at / 8}) for at in steps))

    def steps(self, tracked: str = "m1") -> list[int]:
        return [at for _, at, _, _ in self.mlflow.metrics.get(tracked, [])]

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.tracking.forward_news()

    def waiting(self) -> int:
        return len(self.store.metrics.events(self.tracking.name, after_id=0))

    def end(self, run: Run, outcome: Outcome = Outcome.COMPLETED) -> Run:
        first = placed(run)
        assert self.store.apply([first]) == [True]
        last = step(first.after, RunEvent.STARTED, RunEvent.FINISHED, at=200.0, outcome=outcome)
        assert self.store.apply([last]) == [True]
        return last.after

    def tell(self, run: Run) -> Failure | None:
        """Send the message of a run's end, as the loop of notifications does."""
        [subscription] = self.tracking.subscriptions(run)
        sender = Sender(
            mail=None, secrets=self._secrets, private_addresses=True, adapters=self.tracking.adapters
        )
        [result] = sender.send([[message(run, subscription)]])
        return result


def message(run: Run, subscription: Subscription) -> Notification:
    return Notification(
        run_id=run.id,
        key="completed:1",
        server="local",
        occasion=Occasion.COMPLETED,
        receiver=subscription.receiver,
        about={},
        at=200.0,
    )


@pytest.fixture
def lab() -> Iterator[Lab]:
    with tracking_server() as mlflow:
        yield Lab(mlflow)


def test_a_run_is_made_at_its_first_report_and_ended_at_its_end(lab: Lab) -> None:
    """Its name, user and parameters are there, and it is in the experiment that the run names."""
    run = lab.run(
        name="digits", MLFLOW_EXPERIMENT_NAME="mnist", parameters={"lr": 0.1, "net": {"deep": True}}
    )
    assert lab.tell(run) is None
    assert (lab.mlflow.runs, list(lab.mlflow.experiments)) == ({}, ["Default"]), "it has reported nothing"
    lab.losses(run, 0, 1)
    lab.tracking.forward_news()
    made = lab.mlflow.runs[lab.mlflow.made_for("r1")]
    assert made["experiment_id"] == lab.mlflow.experiments["mnist"]
    assert (made["run_name"], made["tags"]["mlflow.user"], made["status"]) == ("digits", "ada", "RUNNING")
    assert made["params"] == {"lr": "0.1", "net": "{'deep': True}"}
    assert lab.mlflow.metrics["m1"] == [("loss", 0, 100_000, "0.0"), ("loss", 1, 101_000, "0.125")]
    assert lab.waiting() == 0, "sent events are removed"
    assert lab.tell(lab.end(run, Outcome.FAILED)) is None
    assert (made["status"], made["end_time"]) == ("FAILED", 200_000)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [(Outcome.COMPLETED, "FINISHED"), (Outcome.FAILED, "FAILED"), (Outcome.STOPPED, "KILLED")],
)
def test_the_run_that_the_user_names_is_used(lab: Lab, outcome: Outcome, word: str) -> None:
    lab.mlflow.runs["given"] = {"tags": {}, "params": {}, "experiment_id": "0", "status": "SCHEDULED"}
    run = lab.run(MLFLOW_RUN_ID="given", parameters={"lr": 1})
    lab.losses(run, 0)
    assert lab.tell(lab.end(run, outcome)) is None, "its metrics come before its end"
    assert list(lab.mlflow.runs) == ["given"]
    assert lab.steps("given") == [0]
    assert lab.mlflow.runs["given"]["status"] == word
    assert lab.mlflow.runs["given"]["tags"] == {"tarmac.run": "r1"}
    assert lab.mlflow.runs["given"]["params"] == {}, "MLflow has them already"


def test_runs_without_a_tracking_server_of_http_are_left_alone(lab: Lab) -> None:
    for run in (lab.run("r1", url="sqlite:///mlflow.db"), lab.run("r2", url="databricks")):
        assert lab.tracking.subscriptions(run) == ()
        assert lab.tracking.select(run, MetricReport(at=1.0, values={"loss": 1.0})) is None
    lab.tracking.forward()
    assert lab.mlflow.calls == []


def test_names_groups_ranks_and_numbers_become_those_of_mlflow(lab: Lab) -> None:
    run = lab.run()
    lab.report(
        run,
        MetricReport(at=1.0, step=2, group="validation", values={"loss": nan, "a=b": inf}),
        MetricReport(at=2.5, rank=3, values={"../x//y": -inf}, texts={"note": "stays here"}),
        MetricReport(at=3.0, texts={"only": "words"}),
    )
    lab.tracking.forward_news()
    assert lab.mlflow.metrics["m1"] == [
        ("validation/loss", 2, 1000, "NaN"),
        ("validation/a_b", 2, 1000, "Infinity"),
        ("x/y.rank3", 0, 2500, "-Infinity"),
    ]


def test_many_values_arrive_once_and_in_order(lab: Lab) -> None:
    run = lab.run()
    lab.losses(run, *range(2500))
    lab.tracking.forward_news()
    lab.crash()
    lab.losses(run, *range(2500, 2600))
    lab.tracking.forward_news()
    assert lab.steps() == list(range(2600))


@pytest.mark.parametrize("lost", ["runs/create", "runs/log-batch", "runs/search"])
def test_a_lost_answer_and_a_crash_double_nothing(lab: Lab, lost: str) -> None:
    """The first call is carried out, but its answer is lost; then the server dies before it tries again."""
    run = lab.run()
    lab.losses(run, 0, 1)
    lab.mlflow.drop.add(lost)
    lab.tracking.forward_news()
    lab.crash()
    lab.losses(run, 2)
    lab.tracking.forward_news()
    assert (list(lab.mlflow.runs), lab.steps()) == (["m1"], [0, 1, 2])


def test_a_server_that_is_down_gets_everything_later(lab: Lab) -> None:
    """Meanwhile it is left alone, and the message of the end is one to be tried again."""
    run = lab.run()
    lab.mlflow.down = True
    lab.losses(run, 0)
    lab.tracking.forward_news()
    calls = len(lab.mlflow.calls)
    lab.losses(run, 1)
    lab.tracking.forward_news()
    assert len(lab.mlflow.calls) == calls, "it rests"
    failed = lab.tell(lab.end(run))
    assert failed is not None
    assert (failed.final, failed.reason.partition(":")[0]) == (False, "127.0.0.1")
    lab.mlflow.down = False
    lab.later(LONGEST_REST_S)
    assert (lab.steps(), lab.waiting()) == ([0, 1], 0)
    assert lab.tell(run) is None
    assert lab.mlflow.runs["m1"]["status"] == "FINISHED"


def test_a_server_that_is_down_delays_no_other(lab: Lab) -> None:
    """Also not the metrics of others that came before: those are not sent twice, and not kept."""
    with tracking_server() as other:
        ours, theirs = lab.run("r1"), lab.run("r2", url=other.url)
        other.down = True
        for at in range(3):
            lab.losses(theirs, at)
            lab.losses(ours, at)
            lab.tracking.forward_news()
        assert lab.steps() == [0, 1, 2]
        calls = lab.mlflow.calls.count("runs/log-batch")
        other.down = False
        lab.later(LONGEST_REST_S)
        assert [at for _, at, _, _ in other.metrics["m1"]] == [0, 1, 2]
        assert lab.mlflow.calls.count("runs/log-batch") == calls
        assert lab.waiting() == 0


def test_what_a_server_never_takes_is_dropped_and_the_rest_arrives(lab: Lab) -> None:
    gone, good = lab.run("r1", MLFLOW_RUN_ID="deleted"), lab.run("r2")
    lab.losses(gone, 0)
    lab.losses(good, 0)
    lab.tracking.forward_news()
    assert (lab.steps(), lab.waiting()) == ([0], 0)
    failed = lab.tell(lab.end(gone))
    assert failed is not None
    assert failed.final
    assert "answered 404 to runs/log-batch: Run with id=deleted not found" in failed.reason


def test_after_a_day_reports_are_given_up(lab: Lab) -> None:
    run = lab.run()
    lab.mlflow.down = True
    lab.losses(run, 0)
    lab.tracking.forward_news()
    lab.later(GIVES_UP_S + 1)
    assert lab.waiting() == 0
    lab.mlflow.down = False
    lab.losses(run, 1)
    lab.later(LONGEST_REST_S)
    assert lab.steps() == [1]


@pytest.mark.parametrize(
    ("variables", "secret", "login"),
    [
        ({}, None, None),
        ({}, "MLFLOW_TRACKING_TOKEN", f"Bearer {PASSWORD}"),
        (
            {"MLFLOW_TRACKING_USERNAME": "ada"},
            "MLFLOW_TRACKING_PASSWORD",
            f"Basic {base64.b64encode(b'ada:correct horse').decode()}",
        ),
    ],
)
def test_credentials_are_the_secrets_of_the_run(
    lab: Lab, variables: dict[str, str], secret: str | None, login: str | None
) -> None:
    uses = () if secret is None else (SecretUse(name="mlflow", variable=secret),)
    lab.losses(lab.run(secrets=uses, **variables), 0)
    lab.tracking.forward_news()
    assert lab.mlflow.logins == {login}
    assert lab.steps() == [0]


def test_a_token_that_expired_is_tried_again(lab: Lab) -> None:
    """So is a secret that was removed: both may be renewed."""
    run = lab.run(secrets=(SecretUse(name="mlflow", variable="MLFLOW_TRACKING_TOKEN"),))
    lab.losses(run, 0)
    lab.mlflow.refusals = [401]
    lab.tracking.forward_news()
    lab.missing = True
    lab.later(LONGEST_REST_S)
    assert lab.steps() == []
    lab.missing = False
    lab.later(LONGEST_REST_S)
    assert lab.steps() == [0]


def test_private_addresses_are_refused_where_the_settings_say_so(lab: Lab) -> None:
    lab.crash(private_addresses=False)
    run = lab.run()
    lab.losses(run, 0)
    failed = lab.tell(lab.end(run))
    assert failed is not None
    assert failed.final
    assert "the setting notifications.private_addresses forbids it" in failed.reason
    assert (lab.mlflow.calls, lab.waiting()) == ([], 0)


def test_another_service_at_the_url_is_named(lab: Lab) -> None:
    run = lab.run(url=lab.mlflow.url.removesuffix("/base"))
    lab.losses(run, 0)
    failed = lab.tell(lab.end(run))
    assert failed is not None
    assert failed.final


def test_a_removed_run_is_passed_over(lab: Lab) -> None:
    run = lab.end(lab.run())
    lab.losses(run, 0)
    lab.store.remove_runs(["r1"])
    lab.tracking.forward_news()
    assert lab.waiting() == 0
    assert lab.tell(run) is None

"""Sends the reports and the status of runs to the tracking servers that their variables name.

A run with MLFLOW_TRACKING_URI has a run of MLflow: that of MLFLOW_RUN_ID, else one that is made at its first
report. The reports of a run are durable events (`control.state.metric_intake`) until its tracking server has
them, its start and its end are messages (`server.notifying`). After a crash events are sent again: MLflow
stores an equal metric once. Made by `server.wiring`.
"""

import base64
import logging
import posixpath
import re
from collections.abc import Mapping, Sequence
from threading import Event, Lock
from typing import Any

from msgspec import Struct

from tarmac.control.decisions.counting import doubled_s
from tarmac.control.state.metric_intake import value_text
from tarmac.dialects.dialect import Report
from tarmac.model.errors import TarmacError
from tarmac.model.lifecycle import RunState
from tarmac.model.metrics import TRAINING, MetricEvent, MetricReport
from tarmac.model.notification import ENDED, Channel, Failure, Notification, Occasion, Receiver, Subscription
from tarmac.model.ports import Clock, Store
from tarmac.model.run import Run
from tarmac.model.secret import SecretValues
from tarmac.model.spec import RunSpec
from tarmac.server.notifying.sending import Adapter
from tarmac.systems.mantik.statuses import status
from tarmac.systems.mlflow.rest import CallFailed, TrackingServer

SCHEME = "mlflow"
"""What precedes the scheme of a tracking server in the address of a receiver."""

TRACKING_URI = "MLFLOW_TRACKING_URI"
RUN_ID = "MLFLOW_RUN_ID"
EXPERIMENT_ID = "MLFLOW_EXPERIMENT_ID"
EXPERIMENT_NAME = "MLFLOW_EXPERIMENT_NAME"
USERNAME, PASSWORD = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
TOKEN = "MLFLOW_TRACKING_TOKEN"
CREDENTIALS = (USERNAME, PASSWORD, TOKEN)

OUR_RUN = "tarmac.run"
"""The tag of a run of MLflow with the id of its run of tarmac."""

FIRST_REST_S, LONGEST_REST_S = 2.0, 600.0
GIVES_UP_S = 24 * 3600.0
"""The time after which the reports for a tracking server that takes none are dropped."""

_DEFAULT_EXPERIMENT = "0"
_MOST_PARAMS = 100
_LONGEST_PARAM = 6000
_LONGEST_KEY = 250
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

log = logging.getLogger(__name__)

Destination = tuple[str, str]
"""The URI of a tracking server, and the user whose reports it gets."""


class Rest(Struct, frozen=True, kw_only=True):
    """The pause of a failing destination: the first event that it lacks, and when it is tried again."""

    first_id: int
    since: float
    until: float
    tries: int = 1


class Tracking:
    """The destination MLflow of a server: `subscriptions` and `select` find its runs, `forward` and `update`
    send.
    """

    def __init__(
        self, store: Store, secrets: SecretValues, clock: Clock, *, server: str, private_addresses: bool
    ) -> None:
        self.name = f"{SCHEME} of {server}"
        self._store, self._secrets, self._clock = store, secrets, clock
        self._private_addresses = private_addresses
        self._lock = Lock()
        self._news, self._ending = True, Event()
        self._seen = self._forgotten = 0
        self._resting: dict[Destination, Rest] = {}
        self._run_ids: dict[str, str] = {}

    def subscriptions(self, run: Run) -> tuple[Subscription, ...]:
        """The subscription to the start and the end of a run with a tracking server."""
        uri = tracking_uri(run.spec)
        if uri is None:
            return ()
        receiver = Receiver(channel=Channel.WEBHOOK, address=f"{SCHEME}+{uri}")
        return (Subscription(receiver=receiver, on=(Occasion.STARTED, *ENDED)),)

    def select(self, run: Run, report: MetricReport) -> Mapping[str, Any] | None:
        """The numbers of a report of such a run, as the body of an event."""
        uri = tracking_uri(run.spec)
        if uri is None or not report.values:
            return None
        place = {"uri": uri, "user": run.user, "group": report.group, "rank": report.rank}
        return {**place, "values": {name: value_text(value) for name, value in report.values.items()}}

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """By scheme of a receiver, the function that sends it a message."""
        return dict.fromkeys((f"{SCHEME}+http", f"{SCHEME}+https"), self.update)

    def note_events(self) -> None:
        """There are new events."""
        self._news = True

    def begin(self, ending: Event) -> None:
        """Learn the event that ends this work."""
        self._ending = ending

    def forward_news(self) -> None:
        """Send new events, and those of destinations whose rest is over."""
        now = self._clock.now()
        if self._news or any(rest.until <= now for rest in self._resting.values()):
            self._news = False
            try:
                self.forward()
            except TarmacError:
                self._news = True
                raise

    def update(self, message: Notification) -> Failure | None:
        """Set the present status of a run, after its metrics. A run that has reported nothing has none."""
        run = self._store.load_runs([message.run_id]).get(message.run_id)
        if run is None or tracking_uri(run.spec) is None:
            return None
        try:
            self.forward()
            server = self._server(run)
            tracked = self._tracked_run(server, run, make=False)
            if tracked is not None:
                word = status(Report(state=run.state, outcome=run.outcome))
                server.log(tracked, tags={OUR_RUN: run.id})
                server.update_run(tracked, word, end_ms=_ms(run.ended_at))
        except CallFailed as problem:
            return problem.failure
        if run.state is RunState.ENDED:
            self._run_ids.pop(run.id, None)
        return None

    def forward(self) -> None:
        """Send stored events, in order for each run; a failing destination rests, and delays no other."""
        with self._lock:
            now = self._clock.now()
            over = [rest.first_id for rest in self._resting.values() if rest.until <= now]
            after_id = min([self._seen, *(first - 1 for first in over)])
            failing = {key for key, rest in self._resting.items() if rest.until > now}
            last_id = self._seen
            while events := self._store.metrics.events(self.name, after_id=after_id):
                if self._ending.is_set():
                    return
                after_id = events[-1].id
                last_id = max(last_id, after_id)
                self._forward(events, failing, now)
            self._seen = last_id
            self._resting = {key: rest for key, rest in self._resting.items() if key in failing}
            done_id = min([self._seen, *(rest.first_id - 1 for rest in self._resting.values())])
            if done_id > self._forgotten:
                self._store.metrics.forget_events(self.name, until_id=done_id)
                self._forgotten = done_id

    def _forward(self, events: Sequence[MetricEvent], failing: set[Destination], now: float) -> None:
        """Send some events; destinations that fail become `failing`."""
        runs = self._store.load_runs(sorted({event.run_id for event in events}))
        due: dict[Destination, dict[str, list[MetricEvent]]] = {}
        for event in events:
            key = event.body["uri"], event.body["user"]
            rest = self._resting.get(key)
            if event.id >= (self._seen + 1 if rest is None else rest.first_id):
                due.setdefault(key, {}).setdefault(event.run_id, []).append(event)
        for key, by_run in due.items():
            if key in failing:
                continue
            try:
                for run_id, found in by_run.items():
                    if run_id in runs:
                        self._send(runs[run_id], found)
            except CallFailed as problem:
                log.warning("the metrics of %s were not sent to MLflow: %s", key[1], problem)
                ids = [event.id for found in by_run.values() for event in found]
                self._resting[key] = _rest_after(self._resting.get(key), min(ids), max(ids), now)
                failing.add(key)

    def _send(self, run: Run, events: Sequence[MetricEvent]) -> None:
        """Log events of one run; those that its tracking server will never take are dropped."""
        try:
            server = self._server(run)
            tracked = self._tracked_run(server, run, make=True)
            assert tracked is not None, "it was made"
            server.log(tracked, metrics=[metric for event in events for metric in _metrics(event)])
        except CallFailed as problem:
            if not problem.failure.final:
                raise
            log.warning("metrics of %s (%s) do not reach MLflow: %s", run.name, run.id, problem)

    def _server(self, run: Run) -> TrackingServer:
        """The tracking server of a run, with the credentials among its variables and secrets."""
        variables = run.spec.environment.variables
        known = {name: variables[name] for name in CREDENTIALS if name in variables}
        try:
            for use in run.spec.secrets:
                if use.variable in CREDENTIALS:
                    known[use.variable] = self._secrets([use])[use.name]
        except TarmacError as problem:
            raise CallFailed(str(problem)) from None
        return TrackingServer(
            uri=variables[TRACKING_URI],
            authorization=_authorization(known),
            private_addresses=self._private_addresses,
        )

    def _tracked_run(self, server: TrackingServer, run: Run, *, make: bool) -> str | None:
        """The id of the run of MLflow for a run; None without one, unless it is to be made."""
        variables = run.spec.environment.variables
        known = variables.get(RUN_ID) or self._run_ids.get(run.id)
        if known is not None:
            return known
        experiment = variables.get(EXPERIMENT_ID)
        if experiment is None and (name := variables.get(EXPERIMENT_NAME)):
            experiment = server.experiment(name, make=make)
            if experiment is None:
                return None
        experiment = experiment or _DEFAULT_EXPERIMENT
        found = server.find_run(experiment, OUR_RUN, run.id)
        if found is None and make:
            tags = {OUR_RUN: run.id, "mlflow.user": run.user}
            began_ms = _ms(run.started_at or run.created_at) or 0
            found = server.create_run(experiment, name=run.name, start_ms=began_ms, tags=tags)
        if found is not None:
            self._run_ids[run.id] = found
            params = list((run.spec.parameters or {}).items())[:_MOST_PARAMS]
            server.log(found, params={_key(name): str(value)[:_LONGEST_PARAM] for name, value in params})
        return found


def tracking_uri(spec: RunSpec) -> str | None:
    """The URI of a run's tracking server, if that is one of HTTP."""
    uri = spec.environment.variables.get(TRACKING_URI, "")
    return uri if uri.startswith(("http://", "https://")) else None


def _rest_after(before: Rest | None, first_id: int, last_id: int, now: float) -> Rest:
    """The next rest of a destination that failed to take these events; after a day they are given up."""
    tries, since = (0, now) if before is None else (before.tries, before.since)
    if now - since > GIVES_UP_S:
        first_id, since = last_id + 1, now
    until = now + doubled_s(FIRST_REST_S, tries, LONGEST_REST_S)
    return Rest(first_id=first_id, since=since, until=until, tries=tries + 1)


def _authorization(known: Mapping[str, str]) -> str | None:
    if known.get(USERNAME):
        login = f"{known[USERNAME]}:{known.get(PASSWORD, '')}"
        return f"Basic {base64.b64encode(login.encode()).decode()}"
    return f"Bearer {known[TOKEN]}" if known.get(TOKEN) else None


def _metrics(event: MetricEvent) -> list[dict[str, Any]]:
    """The metrics of an event as MLflow takes them: the group and a rank other than 0 are in the name."""
    group, rank = event.body["group"], event.body["rank"]
    prefix, suffix = ("" if group == TRAINING else f"{group}/"), (f".rank{rank}" if rank else "")
    return [
        {
            "key": _key(f"{prefix}{name}{suffix}"),
            "value": _NOT_FINITE.get(str(value), value),
            "timestamp": _ms(event.at),
            "step": event.step or 0,
        }
        for name, value in event.body["values"].items()
    ]


def _key(name: str) -> str:
    """A name that MLflow takes: it must be a plain relative path."""
    plain = posixpath.normpath(re.sub(r"[^\w\-. :/]", "_", name)).lstrip("./")
    return plain[:_LONGEST_KEY].rstrip("/") or "_"


def _ms(at: float | None) -> int | None:
    return None if at is None else int(at * 1000)

"""`SqlStore`: the durable record in SQLite or PostgreSQL. Opened by `server/wiring.py`.

Every write is one transaction of a handful of statements, executed with all rows at once. Guards are part of
the UPDATE, so a step is stale exactly when the UPDATE finds no row.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection

from tarmac.model.actor import HomeIdentity, Lease, ServerRecord, Sight
from tarmac.model.changes import NewRun, RunStep, UsageBucket
from tarmac.model.cluster import Cluster, Drain
from tarmac.model.experiment import Experiments
from tarmac.model.lifecycle import IllegalStep, RunState
from tarmac.model.people.usage import AttemptSpan, TimeRange, Used
from tarmac.model.progress import Event, Outcome
from tarmac.model.reservations import ReservedNodes, in_order
from tarmac.model.run import Attempt, Run
from tarmac.model.run_records import Dataset
from tarmac.model.summary import RunQuery, RunSummary
from tarmac.store import checks, rows, schema, spans
from tarmac.store import statements as sql
from tarmac.store.accounts import SqlAccounts
from tarmac.store.announcements import SqlAnnouncements
from tarmac.store.database import CHUNK, Conflict, Database, Stale, each_of, is_damage, plain_rows
from tarmac.store.experiments import SqlExperiments
from tarmac.store.limits import SqlLimits
from tarmac.store.metrics import SqlMetrics
from tarmac.store.notifications import SqlNotifications
from tarmac.store.numbers import SqlNumbers
from tarmac.store.rentals import SqlRentals
from tarmac.store.run_records import SqlAnnotations, SqlRunRecords
from tarmac.store.run_views import SqlRunViews
from tarmac.store.secrets import SqlSecrets
from tarmac.store.upgrade import bring_up_to_date


def open_store(url: str) -> SqlStore:
    """The store at `url` (sqlite:///PATH or postgresql+psycopg://...), created or migrated if necessary."""
    database = Database(url)
    try:
        bring_up_to_date(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database)


class SqlStore:
    """Implements `model.ports.Store` in SQL. May be used by any number of threads and processes at once."""

    def __init__(self, database: Database) -> None:
        """Use `open_store`, which also upgrades the schema."""
        self._database = database
        self.accounts = SqlAccounts(database)
        self.secrets = SqlSecrets(database)
        self.announcements = SqlAnnouncements(database)
        self.annotations = SqlAnnotations(database)
        self.limits = SqlLimits(database)
        self.metrics = SqlMetrics(database)
        self.numbers = SqlNumbers(database)
        self.notifications = SqlNotifications(database)
        self.rentals = SqlRentals(database)
        self.run_records = SqlRunRecords(database)
        self.run_views = SqlRunViews(database)
        self.experiments: Experiments = SqlExperiments(database, self._write_runs)
        self._put_attempts = sql.put_attempts(database.dialect)
        self._put_node = sql.put(schema.node, database.dialect)
        self._put_cluster = sql.put(schema.cluster, database.dialect)
        self._put_dataset = sql.put(schema.dataset, database.dialect)
        self._put_reservation = sql.put(schema.reservation, database.dialect)

    def close(self) -> None:
        """Close every connection; a later call opens them again."""
        self._database.close()

    @property
    def name(self) -> str:
        """The name of the database in messages."""
        return self._database.name

    @property
    def size_bytes(self) -> int:
        """The size of a SQLite database's file; 0 for other databases."""
        path = self._database.path
        return path.stat().st_size if path is not None else 0

    def damage(self, *, limit_s: float, proceed: Callable[[], bool] = lambda: True) -> str | None:
        """The damage in the file of a SQLite database that is found within `limit_s`; None for none."""
        path = self._database.path
        return damage(path, limit_s=limit_s, proceed=proceed) if path is not None else None

    # --- runs -------------------------------------------------------------------------------------

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        for item in new:
            checks.check_new(item)
        if not new:
            return []
        try:
            return self._create(new)
        except Conflict:  # a key was used after the lookup: now the lookup finds it
            return self._create(new)

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        for step in steps:
            checks.check_step(step)
        try:
            return self._apply_all(steps, lease)
        except Stale:  # rare: find out which step
            return [False] * len(steps) if whole else self._apply_each(steps, lease)

    def run(self, run_id: str) -> Run | None:
        return self.load_runs([run_id]).get(run_id)

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, Run]:
        return {row[0]: rows.to_run(row) for row in self._database.rows_of(sql.RUNS_BY_ID, run_ids)}

    def find_runs(
        self, reference: str, *, user: str | None = None, sight: Sight | None = None, limit: int = 10
    ) -> list[Run]:
        statements = [sql.seen(each, schema.run, sight) for each in sql.RUNS_BY_REFERENCE]
        found = self._database.rows_by_reference(statements, reference, user=user, limit=limit)
        return [rows.to_run(row) for row in found]

    def remove_runs(self, run_ids: Collection[str]) -> frozenset[str]:
        with self._database.writing() as connection:
            spans.keep(connection, run_ids)
            return frozenset(row.id for row in each_of(connection, sql.REMOVE_RUNS, run_ids))

    def runs(self, query: RunQuery) -> list[RunSummary]:
        counted = sql.relevant(query)
        with self._database.reading() as connection:
            few = counted is not None and connection.execute(counted).scalar_one() <= sql.FEW
            found = plain_rows(connection, sql.summaries(query, few=few))
        return [rows.to_summary(row) for row in found]

    def count_runs(self, query: RunQuery) -> int:
        return int(self._database.rows(sql.count(query))[0][0])

    def array_counts(self, array_id: str) -> dict[tuple[RunState, Outcome | None], int]:
        found = self._database.rows(sql.ARRAY_COUNTS, {"array_id": array_id})
        return {(RunState(state), outcome and Outcome(outcome)): count for state, outcome, count in found}

    def live_runs(self) -> Iterator[Run]:
        with self._database.reading() as connection:
            ids = [run_id for (run_id,) in plain_rows(connection, sql.LIVE_IDS)]
            for start in range(0, len(ids), CHUNK):  # no sort has whole rows, and no list has all of them
                part = ids[start : start + CHUNK]
                bounds = {"first": part[0], "last": part[-1]}
                yield from map(rows.to_run, plain_rows(connection, sql.LIVE_RUNS, bounds))

    # --- attempts and events ----------------------------------------------------------------------

    def attempts(self, run_id: str) -> list[Attempt]:
        return [rows.to_attempt(row) for row in self._database.rows(sql.ATTEMPTS, {"run_id": run_id})]

    def live_attempts(self) -> list[Attempt]:
        return [rows.to_attempt(row) for row in self._database.rows(sql.LIVE_ATTEMPTS)]

    def events(self, run_id: str, *, after_seq: int = 0) -> list[Event]:
        found = self._database.rows(sql.EVENTS, {"run_id": run_id, "after_seq": after_seq})
        return list(map(rows.to_event, found))

    def feed(self, *, after_id: int, limit: int = 1000) -> list[Event]:
        with self._database.reading() as connection:
            found = sql.FEED.rows(connection, {"after_id": after_id, "limit": limit})
        return list(map(rows.to_event, found))

    def last_event_id(self) -> int:
        newest: int = self._database.rows(sql.LAST_EVENT_ID)[0][0]
        return newest

    # --- servers and nodes ------------------------------------------------------------------------

    def servers(self) -> list[ServerRecord]:
        with self._database.reading() as connection:
            return list(map(rows.to_server, sql.SERVERS.rows(connection, {})))

    def take_lease(self, cluster: str, home: HomeIdentity, *, after: int, now: float) -> Lease | None:
        lease = Lease(cluster=cluster, home=home.id, token=after + 1)
        values = rows.of_server(lease, home, now)
        with self._database.writing() as connection:
            known = sql.LEASE.rows(connection, {"of_cluster": cluster})
            if (known[0][1] if known else 0) != after:
                return None
            if not known:
                connection.execute(sql.INSERT_SERVER, values)
            else:
                connection.execute(
                    sql.UPDATE_SERVER, {"guard_cluster": cluster, "guard_token": after, **values}
                )
        return lease

    def renew_lease(self, lease: Lease, *, now: float) -> None:
        with self._database.writing(lease) as connection:
            guard = {"guard_cluster": lease.cluster, "guard_token": lease.token}
            connection.execute(sql.UPDATE_SERVER, {**guard, "seen_at": now})

    def drained_nodes(self) -> dict[str, Drain]:
        """The drained nodes; older versions stored only that there is a drain."""
        found = self._database.rows(sql.DRAINED)
        return {name: Drain() if body is None else rows.read_record(Drain, body) for name, body in found}

    def set_drained(self, nodes: Collection[str], drain: Drain | None) -> None:
        values = {"drained": drain is not None, "drain": rows.body(drain)}
        if changed := [{"name": name, **values} for name in sorted(set(nodes))]:
            with self._database.writing() as connection:
                connection.execute(self._put_node, changed)

    def reservations(self) -> list[ReservedNodes]:
        found = [rows.read_record(ReservedNodes, body) for (body,) in self._database.rows(sql.RESERVATIONS)]
        return sorted(found, key=in_order)

    def put_reservation(self, new: ReservedNodes) -> None:
        self._database.write(self._put_reservation, {"name": new.name, "body": rows.written(new)})

    def remove_reservation(self, name: str) -> None:
        self._database.write(sql.REMOVE_RESERVATION, {"guard_name": name})

    # --- usage and clusters -----------------------------------------------------------------------

    def usage(self, since: float) -> list[UsageBucket]:
        return [rows.to_usage(row) for row in self._database.rows(sql.USAGE, {"since": since})]

    def attempt_spans(self, since: float, until: float) -> list[AttemptSpan]:
        with self._database.reading() as connection:
            found = spans.within(connection, [(since, until)])
        return [span for span in found if span.begin < until]

    def used_slots(self, days: TimeRange, others: Sequence[TimeRange], *, by_day: bool) -> Used:
        with self._database.reading() as connection:
            return spans.sums(connection, days, by_day=by_day), spans.within(connection, others)

    def clusters(self) -> list[Cluster]:
        return [rows.read_record(Cluster, body) for (body,) in self._database.rows(sql.CLUSTERS)]

    def put_cluster(self, cluster: Cluster) -> None:
        checks.check_cluster(cluster)
        self._database.write(self._put_cluster, {"name": cluster.name, "body": rows.written(cluster)})

    def remove_cluster(self, name: str) -> None:
        self._database.write(sql.REMOVE_CLUSTER, {"guard_name": name})

    # --- datasets ---------------------------------------------------------------------------------

    def datasets(self) -> list[Dataset]:
        return [rows.read_record(Dataset, body) for (body,) in self._database.rows(sql.DATASETS)]

    def put_dataset(self, dataset: Dataset) -> None:
        checks.check_dataset(dataset)
        self._database.write(self._put_dataset, {"id": dataset.id, "body": rows.written(dataset)})

    def remove_dataset(self, dataset_id: str) -> None:
        self._database.write(sql.REMOVE_DATASET, {"guard_id": dataset_id})

    # --- the writes, within their transactions ----------------------------------------------------

    def _create(self, new: Sequence[NewRun]) -> list[Run]:
        with self._database.adding() as connection:
            existing, fresh = checks.split_known(new, _known_by_key(connection, new))
            if fresh:
                _insert(connection, fresh)
        return existing

    def _apply_all(self, steps: Sequence[RunStep], lease: Lease | None) -> list[bool]:
        with self._database.writing(lease) as connection:
            self._write_runs(connection, (), steps)
        return [True] * len(steps)

    def _apply_each(self, steps: Sequence[RunStep], lease: Lease | None) -> list[bool]:
        with self._database.writing(lease) as connection:
            taken = [sql.STEP_RUNS.execute(connection, [rows.of_step(step)]) == 1 for step in steps]
            self._record(connection, [step for step, done in zip(steps, taken, strict=True) if done])
        return taken

    def _write_runs(self, connection: Connection, new: Sequence[NewRun], steps: Sequence[RunStep]) -> None:
        """Write new runs and steps as a part of a transaction. Raises Stale if one of the steps is stale."""
        if new:
            _insert(connection, new)
        if steps:
            updates = [rows.of_step(step) for step in steps]
            if sql.STEP_RUNS.execute(connection, updates) != len(steps):
                raise Stale
            self._record(connection, steps)

    def _record(self, connection: Connection, steps: Sequence[RunStep]) -> None:
        """Write the events, attempts, usage and messages of applied steps."""
        if events := [event for step in steps for event in rows.of_step_events(step)]:
            sql.INSERT_EVENTS.execute(connection, events)
        attempts = [rows.of_attempt(step.attempt) for step in steps if step.attempt is not None]
        if attempts and self._put_attempts.execute(connection, attempts) != len(attempts):
            raise IllegalStep("an attempt that has ended, or runs, cannot go back")
        if used := rows.of_usage(steps):
            sql.add_to(schema.usage, self._database.dialect).execute(connection, used)
        spans.add(connection, steps)
        if messages := [message for step in steps for message in step.notifications]:
            self.notifications.insert(connection, messages)


def _known_by_key(connection: Connection, new: Sequence[NewRun]) -> dict[checks.Key, Run]:
    """The stored runs under any of the idempotency keys of `new`."""
    keys = [item.run.idempotency_key for item in new if item.run.idempotency_key is not None]
    found = map(rows.to_run, each_of(connection, sql.RUNS_BY_KEY, keys))
    return {key: run for run in found if (key := checks.key_of(run)) is not None}


def _insert(connection: Connection, new: Sequence[NewRun]) -> None:
    sql.INSERT_RUNS.execute(connection, [rows.of_new_run(item.run) for item in new])
    sql.INSERT_SPECS.execute(connection, list(rows.of_specs(item.run for item in new)))
    sql.INSERT_EVENTS.execute(connection, [event for item in new for event in rows.of_first_events(item)])
    if labels := [label for item in new for label in rows.of_labels(item.run.id, item.run.spec.labels)]:
        sql.INSERT_LABELS.execute(connection, labels)


FINDINGS = 3
"""The most problems that are named."""

_STEPS = 20_000
"""The number of SQLite's steps between two checks whether to continue."""


def damage(path: Path, *, limit_s: float, proceed: Callable[[], bool]) -> str | None:
    """The damage in the file; None if none was found within `limit_s`, while `proceed()` was true."""
    deadline = time.monotonic() + limit_s
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        connection.set_progress_handler(lambda: not proceed() or time.monotonic() > deadline, _STEPS)
        found = [row[0] for row in connection.execute(f"PRAGMA quick_check({FINDINGS})")]
    except sqlite3.DatabaseError as error:  # if it is no damage, interrupted or locked: no finding
        return str(error) if is_damage(error) else None
    finally:
        connection.close()
    return None if found == ["ok"] else "; ".join(" ".join(text.split()) for text in found)

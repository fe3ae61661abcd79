"""The tables of the database in this version.

Read by `statements`; `migrations` bring older databases to the same schema, with literal values (a test
proves the two equal). Sets of states come from the model here, and are literal in the migrations.
"""

import sqlalchemy as sa

import tarmac.store.account_schema  # noqa: F401 - its tables are of this schema
from tarmac.model.burst.rentals import RentalState
from tarmac.model.lifecycle import AttemptState, ExperimentState, LeaveRequest, Mode, RunEvent, RunState
from tarmac.model.progress import RUN_OUTCOMES, Outcome
from tarmac.model.run_records import AnnotationKind, NumberKind, RunRecordKind
from tarmac.store.columns import Bytewise, Serial, by_key, metadata, one_of, required

BASE = "0028"
"""The oldest schema that migrations start from."""

HEAD = "0038"
"""The newest migration, which is the `alembic_version` of a database with this schema."""

run = sa.Table(
    "run",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("user_name", sa.Text, nullable=False),  # "user" means the database's own user in PostgreSQL
    sa.Column("dialect", sa.Text, nullable=False),
    sa.Column("priority", sa.BigInteger, nullable=False),  # the present one
    sa.Column("slots", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("cluster", sa.Text),  # where it runs or last ran; before that, the target of its spec
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("queued_at", sa.Double),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("message", sa.Text),  # the sentence of `cause`
    sa.Column("cause", sa.Text),
    sa.Column("code_digest", sa.Text),
    *required(sa.Integer, "failures", "faults", "preemptions"),
    sa.Column("idempotency_key", sa.Text),
    sa.Column("pool", sa.Text),  # the same for the pool
    sa.Column("mode", sa.Text, nullable=False, server_default=sa.text("'batch'")),
    sa.Column("turns", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("attained_slot_s", sa.Double, nullable=False, server_default=sa.text("0")),
    sa.Column("ran_s", sa.Double, nullable=False, server_default=sa.text("0")),
    sa.Column("queue_position", sa.Text),
    sa.Column("share", sa.Text),
    sa.Column("cycle_report", sa.Text),
    sa.Column("code_commit", sa.Text),
    sa.Column("cause_code", sa.Text),  # of `cause`, like `message`
    sa.Column("slot_type", sa.Text),  # the requested one
    sa.Column("system", sa.Text, nullable=False, server_default=sa.text("'native'")),
    sa.Column("image", sa.Text),
    sa.Column("max_turns", sa.Integer),
    sa.Column(
        "server", Bytewise, nullable=False, server_default=sa.text("'local'")
    ),  # named by its own cluster
    sa.Column("retry", sa.Text),
    sa.Column("dependencies", sa.Text),
    sa.Column("array_id", Bytewise),
    sa.Column("array_index", sa.BigInteger),
    sa.Column("excluded_nodes", sa.Text),
    sa.UniqueConstraint("idempotency_key", "user_name"),
    sa.Index("ix_run_state", "state", "id", "array_id"),  # the last so that lists skip arrays by it alone
    sa.Index("ix_run_user", "user_name", "id"),
    sa.Index("ix_run_project", "project", "id"),
    sa.Index("ix_run_name", "name", "id"),
    sa.Index("ix_run_ended_at", "ended_at", "id"),
    one_of("state", RunState),
    one_of("outcome", RUN_OUTCOMES),
    one_of("mode", Mode),
)

# Separate from `run`, because it is the bulk of a run and never changes: steps rewrite short rows.
run_spec = sa.Table(
    "run_spec",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

run_label = sa.Table(
    "run_label",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "key"),
    sa.Index("ix_run_label_pair", "key", "value", "run_id"),
)

attempt = sa.Table(
    "attempt",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    *required(sa.Text, "state", "engine", "cluster", "allocation", "token"),
    sa.Column("master_port", sa.Integer),  # NULL: the nodes find one
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("leave_request", sa.Text),
    sa.Column("leave_requested_at", sa.Double),
    sa.Column("outcome", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("allotted_s", sa.Double),
    sa.Column("milestones", sa.Text),
    sa.Column("home", sa.Text),  # the home that starts it; NULL: from an older version
    sa.Column("released", sa.Text),
    sa.Column("granted_at", sa.Double),
    sa.Column("native", sa.Text),
    sa.PrimaryKeyConstraint("run_id", "number"),
    one_of("state", AttemptState),
    one_of("leave_request", LeaveRequest),
    one_of("outcome", Outcome),
    sa.Index("ix_attempt_ended_at", "ended_at", "created_at"),
)

LIVE_ATTEMPT = sa.text("state <> 'ended'")
"""The condition of the index of live attempts, which are few among many. Queries repeat it literally."""

# As SQL text, because an Index with a condition imports SQLAlchemy's PostgreSQL dialect on SQLite as well.
for _table, _index in (
    (run, "ix_run_array ON run (array_id, array_index) WHERE array_id IS NOT NULL"),
    (run, "ix_run_members ON run (array_id, state, outcome) WHERE array_id IS NOT NULL"),
    (attempt, f"ix_attempt_live ON attempt (run_id, number) WHERE {LIVE_ATTEMPT}"),
):
    sa.event.listen(_table, "after_create", sa.DDL(f"CREATE INDEX {_index}"))  # type: ignore[no-untyped-call]

event = sa.Table(
    "event",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("detail", sa.Text),
    sa.Column("actor", sa.Text),
    sa.UniqueConstraint("run_id", "seq"),
    one_of("event", RunEvent),
    one_of("state", RunState),
    sqlite_autoincrement=True,  # an id is never used twice, even after deletions
)

# Additions of people to a run, also after its end: the text as JSON, in pure ASCII.
annotation = sa.Table(
    "annotation",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    *required(sa.Text, "actor", "kind", "body"),
    sa.Index("ix_annotation_run", "run_id", "id"),
    one_of("kind", AnnotationKind),
)

# Records that the code of a run stores with the server by name: the body as JSON.
run_record = sa.Table(
    "run_record",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", Bytewise, nullable=False),
    sa.Column("name", Bytewise, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "kind", "name"),
    sa.Index("ix_run_record_name", "kind", "name"),
    one_of("kind", RunRecordKind),
)

# The position in a node's reports, and the newest report, as JSON.
metric_position = sa.Table(
    "metric_position",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("node", Bytewise, nullable=False),
    sa.Column("read_to", sa.BigInteger, nullable=False),
    sa.Column("latest", sa.Text),
    sa.PrimaryKeyConstraint("run_id", "attempt", "node"),
)

# A metric of a run: its totals, and the points since its last closed chunk (`metric_series`).
metric_series = sa.Table(
    "metric_series",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("grp", Bytewise, nullable=False),  # "group" is a word of SQL
    sa.Column("name", Bytewise, nullable=False),
    *required(sa.Integer, "rank", "attempt", "closed"),
    sa.Column("totals", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "grp", "name", "rank"),
)

# The earlier points of a metric: a chunk never changes.
metric_chunk = sa.Table(
    "metric_chunk",
    metadata,
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("grp", Bytewise, nullable=False),
    sa.Column("name", Bytewise, nullable=False),
    *required(sa.Integer, "rank", "number", "attempt"),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("run_id", "grp", "name", "rank", "number"),
)

# Reports that a subscriber requested, until it has taken them.
metric_event = sa.Table(
    "metric_event",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    sa.Column("subscriber", sa.Text, nullable=False),
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("step", sa.BigInteger),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("ix_metric_event_subscriber", "subscriber", "id"),
    sa.Index("ix_metric_event_run", "run_id"),
    sqlite_autoincrement=True,
)

# Messages about runs: those with a `due_at` are to be sent. `body` has the fields that never change.
notification = sa.Table(
    "notification",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    sa.Column("run_id", Bytewise, sa.ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    sa.Column("key", Bytewise, nullable=False),
    sa.Column("server", Bytewise, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("due_at", sa.Double),
    sa.Column("sent_at", sa.Double),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("run_id", "key"),
    sa.Index("ix_notification_due", "server", "due_at"),
    sqlite_autoincrement=True,
)

# Searches over parameters. `record` has the changing fields as JSON, except the state of the search.
experiment = sa.Table(
    "experiment",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    *required(sa.Text, "state", "name", "project", "user_name"),
    sa.Column("server", Bytewise, nullable=False),
    sa.Column("archived", sa.Boolean, nullable=False),
    sa.Column("idempotency_key", sa.Text),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
    sa.Column("search_state", sa.Text),
    sa.UniqueConstraint("idempotency_key", "user_name"),
    sa.Index("ix_experiment_state", "state", "id"),
    sa.Index("ix_experiment_name", "name", "id"),
    one_of("state", ExperimentState),
)

trial = sa.Table(
    "trial",
    metadata,
    sa.Column("experiment_id", Bytewise, sa.ForeignKey("experiment.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("run_id", Bytewise, nullable=False),  # stays when its run is removed
    sa.Column("body", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("experiment_id", "number"),
    sa.Index("ix_trial_run", "run_id"),
)

# Numbers of things, for programs that need them. A row stays: no number is used twice.
number = sa.Table(
    "number",
    metadata,
    sa.Column("kind", Bytewise, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("of_id", Bytewise, nullable=False),
    sa.PrimaryKeyConstraint("kind", "number"),
    sa.UniqueConstraint("kind", "of_id"),
    one_of("kind", NumberKind),
)

# The home that serves each cluster. A row stays: its token must grow.
server = sa.Table(
    "server",
    metadata,
    sa.Column("cluster", Bytewise, primary_key=True),
    *required(sa.Text, "home", "machine", "hostname", "path"),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
)

# At most one row, with id 1: the announcement of the administrator.
announcement = sa.Table(
    "announcement",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

node = sa.Table(
    "node",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("drained", sa.Boolean, nullable=False),
    sa.Column("drain", sa.Text),  # its user, time and reason
)

reservation = by_key("reservation", "name")

# Usage of ended attempts, added up by hour: the basis of fair shares.
usage = sa.Table(
    "usage",
    metadata,
    sa.Column("hour_at", sa.Double, nullable=False),
    *required(Bytewise, "cluster", "pool", "user_name", "project"),
    sa.Column("group_id", Bytewise, nullable=False),  # an array or experiment; "": of neither
    sa.Column("slot_s", sa.Double, nullable=False),
    sa.PrimaryKeyConstraint("hour_at", "cluster", "pool", "user_name", "project", "group_id"),
)

cluster = by_key("cluster", "name")
dataset = by_key("dataset", "id")

# Every value of each secret, sealed.
secret = sa.Table(
    "secret",
    metadata,
    sa.Column("scope", Bytewise, nullable=False),
    sa.Column("name", Bytewise, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    *required(sa.Text, "body", "sealed", "key_id"),
    sa.Column("retired_at", sa.Double),
    sa.PrimaryKeyConstraint("name", "scope", "number"),
)

# Providers of machines for rent.
provider = by_key("provider", "name")

shape = sa.Table(
    "shape",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("provider", Bytewise, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

# What the last try to rent a shape found. A shape that was removed may have a row.
stock = by_key("stock", "shape")

# Tries to rent machines. Rows stay, also those of removed runs: they say what was paid for.
rental = sa.Table(
    "rental",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("run_id", Bytewise, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("requested_at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.UniqueConstraint("run_id", "number"),
    sa.Index("ix_rental_state", "state"),
    sa.Index("ix_rental_requested_at", "requested_at", "id"),
    one_of("state", RentalState),
)

"""The tables of the database in this version.

Read by `statements`; `migrations` bring older databases to the same schema, with literal values (a test
proves the two equal). Sets of states come from the model here, and are literal in the migrations.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy import event as hooks

from tarmac.model.experiment import ExperimentState
from tarmac.model.lifecycle import AttemptState, LeaveRequest, Mode, RunEvent, RunState
from tarmac.model.run import RUN_OUTCOMES, Outcome
from tarmac.model.run_records import AnnotationKind, NumberKind, RunRecordKind
from tarmac.store.columns import Bytewise, Serial, metadata, one_of

BASE = "0028"
"""The oldest schema that migrations start from."""

HEAD = "0029"
"""The newest migration, which is the `alembic_version` of a database with this schema."""

run = Table(
    "run",
    metadata,
    Column("id", Bytewise, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user_name", Text, nullable=False),  # "user" means the database's own user in PostgreSQL
    Column("dialect", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),  # the present one
    Column("slots", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("cluster", Text),  # where it runs or last ran; before that, the target of its spec
    Column("created_at", Double, nullable=False),
    Column("queued_at", Double),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("message", Text),  # the sentence of `cause`
    Column("cause", Text),
    Column("code_digest", Text),
    Column("failures", Integer, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("idempotency_key", Text),
    Column("pool", Text),  # the same for the pool
    Column("mode", Text, nullable=False, server_default=text("'batch'")),
    Column("turns", Integer, nullable=False, server_default=text("0")),
    Column("attained_slot_s", Double, nullable=False, server_default=text("0")),
    Column("ran_s", Double, nullable=False, server_default=text("0")),
    Column("queue_position", Text),
    Column("share", Text),
    Column("cycle_report", Text),
    Column("code_commit", Text),
    Column("cause_code", Text),  # of `cause`, like `message`
    Column("slot_type", Text),  # the requested one
    Column("system", Text, nullable=False, server_default=text("'native'")),
    Column("image", Text),
    Column("max_turns", Integer),
    Column("server", Bytewise, nullable=False, server_default=text("'local'")),  # named by its own cluster
    Column("retry", Text),
    Column("dependencies", Text),
    Column("array_id", Bytewise),
    Column("array_index", BigInteger),
    Column("excluded_nodes", Text),
    UniqueConstraint("idempotency_key", "user_name"),
    Index("ix_run_state", "state", "id"),
    Index("ix_run_user", "user_name", "id"),
    Index("ix_run_project", "project", "id"),
    Index("ix_run_name", "name", "id"),
    Index("ix_run_ended_at", "ended_at", "id"),
    one_of("state", RunState),
    one_of("outcome", RUN_OUTCOMES),
    one_of("mode", Mode),
)

# Separate from `run`, because it is the bulk of a run and never changes: steps rewrite short rows.
run_spec = Table(
    "run_spec",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("body", Text, nullable=False),
)

run_label = Table(
    "run_label",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("run_id", "key"),
    Index("ix_run_label_pair", "key", "value", "run_id"),
)

attempt = Table(
    "attempt",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("allocation", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("master_port", Integer),  # NULL: the nodes find one
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("leave_request", Text),
    Column("leave_requested_at", Double),
    Column("outcome", Text),
    Column("cause", Text),
    Column("allotted_s", Double),
    Column("milestones", Text),
    Column("home", Text),  # the home that starts it; NULL: from an older version
    Column("released", Text),
    Column("granted_at", Double),
    Column("native", Text),
    PrimaryKeyConstraint("run_id", "number"),
    one_of("state", AttemptState),
    one_of("leave_request", LeaveRequest),
    one_of("outcome", Outcome),
)

LIVE_ATTEMPT = text("state <> 'ended'")
"""The condition of the index of live attempts, which are few among many. Queries repeat it literally."""

# As SQL text, because an Index with a condition imports SQLAlchemy's PostgreSQL dialect on SQLite as well.
for _table, _index in (
    (run, "ix_run_array ON run (array_id, array_index) WHERE array_id IS NOT NULL"),
    (attempt, f"ix_attempt_live ON attempt (run_id, number) WHERE {LIVE_ATTEMPT}"),
):
    hooks.listen(_table, "after_create", DDL(f"CREATE INDEX {_index}"))  # type: ignore[no-untyped-call]

event = Table(
    "event",
    metadata,
    Column("id", Serial, Identity(), primary_key=True),
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("event", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("detail", Text),
    Column("actor", Text),
    UniqueConstraint("run_id", "seq"),
    one_of("event", RunEvent),
    one_of("state", RunState),
    sqlite_autoincrement=True,  # an id is never used twice, even after deletions
)

# Additions of people to a run, also after its end: the text as JSON, in pure ASCII.
annotation = Table(
    "annotation",
    metadata,
    Column("id", Serial, Identity(), primary_key=True),
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("at", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("ix_annotation_run", "run_id", "id"),
    one_of("kind", AnnotationKind),
)

# Records that the code of a run stores with the server by name: the body as JSON.
run_record = Table(
    "run_record",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Bytewise, nullable=False),
    Column("name", Bytewise, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("run_id", "kind", "name"),
    Index("ix_run_record_name", "kind", "name"),
    one_of("kind", RunRecordKind),
)

# The position in a node's reports, and the newest report, as JSON.
metric_position = Table(
    "metric_position",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("node", Bytewise, nullable=False),
    Column("read_to", BigInteger, nullable=False),
    Column("latest", Text),
    PrimaryKeyConstraint("run_id", "attempt", "node"),
)

# A metric of a run: its totals, and the points since its last closed chunk (`metric_series`).
metric_series = Table(
    "metric_series",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("grp", Bytewise, nullable=False),  # "group" is a word of SQL
    Column("name", Bytewise, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("closed", Integer, nullable=False),
    Column("totals", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "grp", "name", "rank"),
)

# The earlier points of a metric: a chunk never changes.
metric_chunk = Table(
    "metric_chunk",
    metadata,
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("grp", Bytewise, nullable=False),
    Column("name", Bytewise, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run_id", "grp", "name", "rank", "number"),
)

# Reports that a subscriber requested, until it has taken them.
metric_event = Table(
    "metric_event",
    metadata,
    Column("id", Serial, Identity(), primary_key=True),
    Column("subscriber", Text, nullable=False),
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("step", BigInteger),
    Column("body", Text, nullable=False),
    Index("ix_metric_event_subscriber", "subscriber", "id"),
    Index("ix_metric_event_run", "run_id"),
    sqlite_autoincrement=True,
)

# Messages about runs: those with a `due_at` are to be sent. `body` has the fields that never change.
notification = Table(
    "notification",
    metadata,
    Column("id", Serial, Identity(), primary_key=True),
    Column("run_id", Bytewise, ForeignKey("run.id", ondelete="CASCADE"), nullable=False),
    Column("key", Bytewise, nullable=False),
    Column("server", Bytewise, nullable=False),
    Column("at", Double, nullable=False),
    Column("body", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due_at", Double),
    Column("sent_at", Double),
    Column("error", Text),
    UniqueConstraint("run_id", "key"),
    Index("ix_notification_due", "server", "due_at"),
    sqlite_autoincrement=True,
)

# Searches over parameters. `record` has the changing fields as JSON, except the state of the search.
experiment = Table(
    "experiment",
    metadata,
    Column("id", Bytewise, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("server", Bytewise, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("idempotency_key", Text),
    Column("spec", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("search_state", Text),
    UniqueConstraint("idempotency_key", "user_name"),
    Index("ix_experiment_state", "state", "id"),
    Index("ix_experiment_name", "name", "id"),
    one_of("state", ExperimentState),
)

trial = Table(
    "trial",
    metadata,
    Column("experiment_id", Bytewise, ForeignKey("experiment.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("run_id", Bytewise, nullable=False),  # stays when its run is removed
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("experiment_id", "number"),
    Index("ix_trial_run", "run_id"),
)

# Numbers of things, for programs that need them. A row stays: no number is used twice.
number = Table(
    "number",
    metadata,
    Column("kind", Bytewise, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("of_id", Bytewise, nullable=False),
    PrimaryKeyConstraint("kind", "number"),
    UniqueConstraint("kind", "of_id"),
    one_of("kind", NumberKind),
)

# The home that serves each cluster. A row stays: its token must grow.
server = Table(
    "server",
    metadata,
    Column("cluster", Bytewise, primary_key=True),
    Column("home", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("hostname", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("seen_at", Double, nullable=False),
)

node = Table(
    "node",
    metadata,
    Column("name", Text, primary_key=True),
    Column("drained", Boolean, nullable=False),
    Column("drain", Text),  # its user, time and reason
)

# Usage of ended attempts, added up by hour: the basis of fair shares.
usage = Table(
    "usage",
    metadata,
    Column("hour_at", Double, nullable=False),
    Column("cluster", Bytewise, nullable=False),
    Column("pool", Bytewise, nullable=False),
    Column("user_name", Bytewise, nullable=False),
    Column("project", Bytewise, nullable=False),
    Column("group_id", Bytewise, nullable=False),  # an array or experiment; "": of neither
    Column("slot_s", Double, nullable=False),
    PrimaryKeyConstraint("hour_at", "cluster", "pool", "user_name", "project", "group_id"),
)

# Usage of the attempts of removed runs, as JSON.
usage_span = Table(
    "usage_span",
    metadata,
    Column("run_id", Bytewise, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("ended_at", Double, nullable=False),
    Column("body", Text, nullable=False),
    Index("ix_usage_span_ended_at", "ended_at"),
)

cluster = Table(
    "cluster",
    metadata,
    Column("name", Bytewise, primary_key=True),
    Column("body", Text, nullable=False),
)

dataset = Table(
    "dataset",
    metadata,
    Column("id", Bytewise, primary_key=True),
    Column("body", Text, nullable=False),
)

# Every value of each secret, sealed.
secret = Table(
    "secret",
    metadata,
    Column("scope", Bytewise, nullable=False),
    Column("name", Bytewise, nullable=False),
    Column("number", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("retired_at", Double),
    PrimaryKeyConstraint("name", "scope", "number"),
)

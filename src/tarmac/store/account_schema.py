"""The tables of accounts, tokens, the audit log, what users have set, limits, credits and
usage: for `schema`.
"""

import sqlalchemy as sa

from tarmac.model.people.limits import EntryKind
from tarmac.store.columns import Bytewise, Serial, by_key, metadata, one_of, required

# Accounts of users; the body has the changing fields as JSON, `password` a hash.
account = sa.Table(
    "account",
    metadata,
    sa.Column("name", Bytewise, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("password", sa.Text),
)

organisation = by_key("organisation", "name")

membership = sa.Table(
    "membership",
    metadata,
    sa.Column("project", Bytewise, nullable=False),
    sa.Column("user_name", Bytewise, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("project", "user_name"),
)

# Tokens of accounts: the SHA-256 of the text in place of the text.
access_token = sa.Table(
    "access_token",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("digest", Bytewise, nullable=False),
    sa.Column("user_name", Bytewise, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("last_used_at", sa.Double),
    sa.Column("revoked_at", sa.Double),
    sa.UniqueConstraint("digest"),
    sa.Index("ix_access_token_user", "user_name"),
)

# Changes and refusals. Rows are added and never changed.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("user_name", Bytewise, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("ix_audit_at", "at", "id"),
    sqlite_autoincrement=True,
)

# The subscriptions of a user to all of their own runs. The user may have no account.
subscription = by_key("subscription", "user_name")

# The views of the table of runs that a user has saved. The user may have no account.
saved_view = sa.Table(
    "saved_view",
    metadata,
    sa.Column("user_name", Bytewise, nullable=False),
    sa.Column("name", Bytewise, nullable=False),
    sa.Column("query", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("user_name", "name"),
)

# Limits by their scope: its user, project and pool as JSON.
run_limit = by_key("run_limit", "scope")

# The ledger of credits: rows are only added. `slot_s` is the charged part of an attempt.
credit_entry = sa.Table(
    "credit_entry",
    metadata,
    sa.Column("id", Serial, sa.Identity(), primary_key=True),
    *required(Bytewise, "account", "key"),
    *required(sa.Double, "at", "amount", "slot_s"),
    *required(sa.Text, "kind", "actor", "note"),
    sa.Column("attempt", Bytewise),
    sa.UniqueConstraint("account", "key"),
    sa.Index("ix_credit_entry_account", "account", "id"),
    sa.Index("ix_credit_entry_attempt", "attempt", "account"),
    one_of("kind", EntryKind),
)

# Usage of ended attempts, added up by day (UTC): what reports on usage show. Attempts and runs count on the
# day on which they began to use slots.
usage_day = sa.Table(
    "usage_day",
    metadata,
    sa.Column("day_at", sa.Double, nullable=False),
    *required(Bytewise, "user_name", "project", "cluster", "pool"),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("slot_s", sa.Double, nullable=False),
    sa.PrimaryKeyConstraint("day_at", "user_name", "project", "cluster", "pool"),
)

# Usage of the attempts of removed runs, as JSON.
usage_span = sa.Table(
    "usage_span",
    metadata,
    sa.Column("run_id", Bytewise, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("ended_at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("ix_usage_span_ended_at", "ended_at"),
)

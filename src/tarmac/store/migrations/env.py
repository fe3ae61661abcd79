"""Alembic's entry point, with our connection and our transaction. Called by `store.upgrade` only."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()

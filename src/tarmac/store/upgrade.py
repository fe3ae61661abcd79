"""Upgrades a database to the schema of this version. Called by `sql.open_store` at every start.

An empty database gets the tables as `schema` declares them; the contract suite checks that the migrations
have the same result. Alembic is imported only to migrate an older one, because its import takes longer than
the rest of a start.
"""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from tarmac.model.errors import Refused
from tarmac.store.columns import metadata
from tarmac.store.database import Database
from tarmac.store.schema import BASE, HEAD

SCRIPTS = Path(__file__).with_name("migrations")

VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""The table in which Alembic keeps the version, as Alembic would create it."""


def bring_up_to_date(database: Database) -> None:
    """Create the tables or run the missing migrations, in one transaction.

    Raises Refused for a database of a newer tarmac, or of one from before the first release.
    """
    with database.reading() as connection:
        if schema_of(connection) == HEAD:
            return
    with database.writing() as connection:
        found = schema_of(connection)  # another server may have done it meanwhile
        if found is None and not inspect(connection).get_table_names():
            _create(connection)
        elif found is None or found < BASE:
            raise Refused(
                f"the database {database.name} is of a tarmac from before the first release"
                f" (its schema is {found or 'unknown'}, and {BASE} is the oldest that can be upgraded)",
                hint="start with an empty database, or with another TARMAC_HOME",
            )
        elif found > HEAD:
            raise Refused(
                f"the database {database.name} was used by a newer tarmac"
                f" (its schema is {found}, ours {HEAD})",
                hint="upgrade tarmac; there is no way back to an older schema",
            )
        elif found < HEAD:
            _migrate(connection)


def _create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    connection.execute(text(VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})


def schema_of(connection: Connection) -> str | None:
    """The schema of a database; None if it has no tables of tarmac."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return version


def _migrate(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - see the top of this module
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")

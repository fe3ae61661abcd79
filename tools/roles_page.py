"""Writes docs/operating/roles.md from the table of roles and the operations, so that it cannot drift.

Called by people after a change of either (`python tools/roles_page.py`), and by the tests (`--check`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

from tarmac.control.permissions import ALLOWED
from tarmac.model.actor import Action, ActorRole
from tarmac.server.app import routes_of
from tarmac.server.service import Service

PAGE = Path(__file__).resolve().parents[1] / "docs/operating/roles.md"

HEAD = (
    "# Roles\n"
    "\n"
    "For administrators: the operations that each role of an [account](accounts.md) may use. "
    "`tools/roles_page.py` writes this page from the\n"
    "table in `control/permissions.py` and from the operations of the API; the tests try every row "
    "with each role.\n"
    "\n"
    "A role applies to the whole server, or to one project. A member changes their own runs, "
    "secrets, datasets and artifacts; an admin of the\n"
    "server those of all users, an admin of a project those of the project. A token with scopes may "
    "use the operations of these actions, and read.\n"
    "The rows of `account` concern one's own account and tokens; admins may name other users there.\n"
    "\n"
    "\n"
)


def main() -> int:
    written = HEAD + "\n".join(rows()) + "\n"
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != written:
            print(f"{PAGE.name} is out of date: python tools/roles_page.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(written, encoding="utf-8")
    return 0


def rows() -> Iterator[str]:
    """The lines of the table: a row for each action, with its operations."""
    operations = [offer.operation for offer in routes_of(cast("Service", MagicMock())).offers]
    yield f"| action | {' | '.join(ActorRole)} | operations |"
    yield f"|---|{'---|' * len(ActorRole)}---|"
    for action in Action:
        found = dict.fromkeys(
            f"`{each.method} {each.base}{each.path}`" for each in operations if each.action is action
        )
        marks = ("yes" if action in ALLOWED[role] else "no" for role in ActorRole)
        yield f"| `{action}` | {' | '.join(marks)} | {', '.join(sorted(found))} |"


if __name__ == "__main__":
    sys.exit(main())

"""The core names no foreign system: facts about one are in its folder of `systems`.

Run by `make check`. `.importlinter` holds the imports of the core; here its text is searched.
"""

from __future__ import annotations

import re
from functools import cache

from source_tree import package_modules

NAMES = re.compile(
    r"(?<![a-z])(determined|clusterfudge|mcli|isc|mantik|strong compute)(?![a-z])", re.IGNORECASE
)

REMAINING = {
    "the origin of an algorithm": {"search/space.py"},
    "the commands of their users, and what they are told": {
        "cli/catalogue.py",
        "cli/commands/queue.py",
        "cli/commands/secret.py",
        "cli/runfile.py",
        "cli/views/messages.py",
    },
    "the module that a launch script imports": {"__init__.py"},
}
"""What still names a system outside of its folder, by reason. The list only gets shorter."""


def test_the_core_names_no_foreign_system() -> None:
    known = tuple(place for places in REMAINING.values() for place in places)
    assert sorted(naming() - {name for name in naming() if name.startswith(known)}) == []


def test_the_list_has_no_place_too_many() -> None:
    places = {place for each in REMAINING.values() for place in each}
    assert {place for place in places if not any(name.startswith(place) for name in naming())} == set()


@cache
def naming() -> frozenset[str]:
    """The files outside of `systems` that name one."""
    return frozenset(
        module.path.removeprefix("src/tarmac/")
        for module in package_modules()
        if module.package != "systems" and NAMES.search(module.text)
    )

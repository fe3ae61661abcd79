"""Reads fields that `tarmac convert` writes for other systems: conventions, and requests to a site.

Called by the reader. People seldom write these by hand, so they follow the records of `model` field by field.
"""

from __future__ import annotations

from typing import TypeVar

from tarmac.dialects.kinds import matching
from tarmac.dialects.located import Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Fields, Value
from tarmac.model.codec import decode
from tarmac.model.errors import InvalidInput
from tarmac.model.site import SiteRequest
from tarmac.model.spec import Conventions

CONVENTIONS = Fields(known=frozenset({"system", "facts"}))

SYSTEM = matching(r"[a-z][a-z0-9]{0,31}", "the name of a dialect, such as isc,")

T = TypeVar("T")


def read_conventions(value: Value | None) -> Conventions:
    """The system whose variables, files and words apply to the run."""
    section = value.section(CONVENTIONS) if value is not None else None
    if section is None:
        return Conventions()
    facts = section.get("facts")
    if facts is not None and not isinstance(facts.node, Table):
        facts.expected("a mapping")
        facts = None
    return Conventions(
        system=section.read("system", SYSTEM, "native"), facts=to_plain(facts.node) if facts else {}
    )


def read_site(value: Value | None) -> SiteRequest | None:
    """The request to a site's batch system."""
    if value is None:
        return None
    if not isinstance(value.node, Table):
        value.expected("a mapping with at least 'queue'")
        return None
    return _record(SiteRequest, value)


def _record(kind: type[T], value: Value) -> T | None:
    try:
        return decode(kind, to_plain(value.node), value.path)
    except InvalidInput as error:
        value.refuse(str(error).removeprefix(f"{value.path}: "))
        return None

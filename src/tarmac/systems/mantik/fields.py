"""The treatment of unknown keys in a compute backend configuration. Used by its tables, beside their readers.

A misspelt key is refused, because its meaning would be lost. Any other unknown key is ignored, as Mantik
does, but with a warning. A key that would hold a secret is refused without showing its value.
"""

from collections.abc import Mapping

from tarmac.dialects.located import Scalar
from tarmac.dialects.schema import Check, Field, Record, Shape
from tarmac.dialects.schema import record as record_of
from tarmac.dialects.section import Section, Value
from tarmac.model.errors import nearest
from tarmac.node.files.secrecy import names_secret

_LEGACY = frozenset({"SSH", "SingularityImage", "Singularity", "CPUs", "Memory"})
"""Keys that are known but not recommended."""


def record(
    fields: Mapping[str, Field | Shape], *checks: Check, silent: frozenset[str] = frozenset(), **more: object
) -> Record:
    """A mapping with these keys, in which null is the same as absent; those in `silent` are dropped."""

    def excuse(section: Section, key: Scalar, value: Value) -> bool:
        return key.text in silent or _excuse(section, key, value)

    return record_of(fields, *checks, nulls=True, excuse=excuse, **more)


def _excuse(section: Section, key: Scalar, value: Value) -> bool:
    """Whether an unknown key is dealt with: refused as a secret, or ignored with a warning."""
    fields, problems = section.fields, section.problems
    if names_secret(key.text):
        message = f"{value.path}: secrets do not belong into a file"
        problems.add(key, message, "take it out; the site's login is given apart")
        return True
    if nearest(key.text, fields.known, fields.synonyms) is not None:
        return False
    near, usual = fields.near(key.text, value.node), ", ".join(sorted(fields.known - _LEGACY))
    known = f"did you mean '{near}'?" if near else f"known here: {usual}"
    problems.warn(key, f"{value.path}: there is no such key; it is ignored ({known})")
    return True

"""The dependencies of a run (`RUN`, `RUN:completed` or `RUN:ended`), and the indices of an array.

Rows of the table in `fields`.
"""

from __future__ import annotations

import re

from tarmac.dialects.kinds import Kind, Misfit
from tarmac.dialects.located import Scalar
from tarmac.dialects.schema import tuple_of
from tarmac.model.array import RunArray, read_array
from tarmac.model.dependency import Condition, Dependency

_REFERENCE = re.compile(r"@last|[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", re.ASCII)
_CONDITIONS = {str(condition): condition for condition in Condition}
_FORMS = "a run, by name or id, and which end of it is awaited: RUN, RUN:completed or RUN:ended"


def _read(scalar: Scalar) -> Dependency:
    reference, colon, word = scalar.text.partition(":")
    condition = _CONDITIONS.get(word) if colon else Condition.COMPLETED
    if not _REFERENCE.fullmatch(reference) or condition is None:
        raise Misfit()
    return Dependency(run=reference, condition=condition)


def _array(scalar: Scalar) -> RunArray:
    try:
        return read_array(scalar.text)
    except ValueError as error:
        raise Misfit(str(error)) from error


ARRAY = Kind("indices such as 0-99, 1,3,5-9 or 0-99%8 (at most 8 at once)", _array, write=str)
DEPENDENCY = Kind(f"{_FORMS},", _read, write=str)
AFTER = tuple_of(DEPENDENCY, f"a list; each item is {_FORMS}", or_one=True)

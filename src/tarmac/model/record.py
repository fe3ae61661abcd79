"""The base of records that are stored, and the function that copies records with other values.

Records are msgspec's Structs. Used by the other modules of `model`, and wherever records are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from dataclasses import replace  # msgspec's takes any changes; type checkers check those of this one
else:
    from msgspec.structs import replace


class StoredRecord(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record whose JSON has no default values, so that rows stay small, and that refuses unknown keys.

    Records that are answers of the API as well are plain Structs instead: they are encoded whole, and a
    client ignores the fields of a newer server.
    """


__all__ = ["StoredRecord", "replace"]

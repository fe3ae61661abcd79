"""The kinds of many fields of the experiment configuration, and how its values combine with the cluster's.

Shared by the tables of Determined's fields. Null is the same as absent.
"""

from enum import StrEnum
from functools import partial

from tarmac.dialects import schema
from tarmac.dialects.kinds import Kind, flag, integer, matching, secret, yaml12
from tarmac.dialects.schema import Custom, Field, mapping
from tarmac.systems.determined.hyperparameters import read_hyperparameters, whole_or_other


class Merge(StrEnum):
    """How a value combines with the cluster's; without a `Merge`, the user's replaces it."""

    DEEP = "deep"  # field by field
    APPEND = "append"  # a list: the cluster's items come first
    PATHS = "paths"  # a list: items of the user replace those with the same container_path
    POLICIES = "policies"  # a list: the union, one item for each name


HYPERPARAMETERS = Custom(read_hyperparameters)
record = partial(schema.record, nulls=True)


def whole(least: int | None = None, most: int | None = None) -> Kind[int]:
    """A whole number."""
    return integer(least, most, of=whole_or_other)


def word(description: str = "a text", pattern: str = r"(?s:.*)") -> Kind[str]:
    """A text that matches entirely."""
    return matching(pattern, description, of=yaml12)


COUNT, POSITIVE, FLAG, TEXT = whole(0), whole(1), flag(yaml12), word()
PORT = whole(1, 65535)
TABLE = mapping("a mapping", yaml12)
SECRET = secret(TEXT)
DEAD = "has had no effect for a long time"
ABSOLUTE = word("an absolute path", r"(?s:/.*)")
NO, YES = Field(FLAG, False), Field(FLAG, True)

"""Ids in Determined's forms: integers for experiments and trials, UUIDs for the rest. Pure.

Used by the conventions, the gateway and the displays. Derived from the run's own id, so they are the same
everywhere.
"""

import hashlib
from uuid import NAMESPACE_URL, uuid5

_LARGEST = 2**31 - 1


def experiment_id(run_id: str) -> int:
    """The number of the run's experiment: from 1 to 2**31 - 1."""
    return number_of("experiment", run_id)


def trial_id(run_id: str) -> int:
    """The number of the run's only trial."""
    return number_of("trial", run_id)


def number_of(kind: str, *parts: str, below: int = _LARGEST) -> int:
    """A pseudo-random number from 1 to `below`, the same for the same parts."""
    digest = hashlib.sha256("\0".join((kind, *parts)).encode()).digest()
    return int.from_bytes(digest[:8]) % below + 1


def uuid_of(kind: str, *parts: str) -> str:
    """A UUID, the same for the same parts."""
    return str(uuid5(NAMESPACE_URL, "/".join((f"tarmac:{kind}", *parts))))

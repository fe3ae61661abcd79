"""A dataset: data under a name, which runs read at /data/<id>. Kept by `store`, fetched by the server."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tarmac.model.cluster import LOCAL_CLUSTER


class DatasetState(StrEnum):
    """The state of a dataset: runs can read an `available` one only. A `failed` one can be added again."""

    CREATED = "created"
    CACHING = "caching"
    AVAILABLE = "available"
    FAILED = "failed"


class Dataset(Struct, frozen=True, kw_only=True):
    """`source` is a directory (or file) on the server's machine, or a URL; `path` is the place of its
    content.

    `done_bytes` of `total_bytes` have been fetched (None: unknown). `message` has the reason of a failure.
    `server` names the server whose machine has it, by that server's own cluster.
    """

    id: str
    source: str
    user: str
    created_at: float
    state: DatasetState = DatasetState.CREATED
    path: str | None = None
    done_bytes: int = 0
    total_bytes: int | None = None
    message: str | None = None
    server: str = LOCAL_CLUSTER

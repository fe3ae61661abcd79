"""Where checkpoints are kept: the union `checkpoint_storage` of a configuration. Part of `fields`."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.schema import (
    ABSOLUTE,
    COUNT,
    DEAD,
    SECRET,
    TEXT,
    Field,
    Record,
    Shape,
    Union,
    record,
    word,
)
from tarmac.dialects.section import Section

CHECKPOINTS = "/mnt/checkpoints"
"""Where every run of tarmac finds its checkpoint directory, as far as its node allows."""

DEFAULT_STORAGE: Mapping[str, Any] = {"type": "directory", "container_path": CHECKPOINTS}
"""Where the settings of the cluster name no storage: checkpoints go with the run's own."""


def _below_root(section: Section, found: Mapping[str, Any]) -> None:
    """`storage_path` is a directory of `host_path`, however it is written."""
    root, inner, value = found.get("host_path"), found.get("storage_path"), section.get("storage_path")
    if not isinstance(root, str) or not isinstance(inner, str) or value is None:
        return
    whole = posixpath.normpath(posixpath.join(root, inner))
    if whole != posixpath.normpath(root) and not whole.startswith(posixpath.normpath(root).rstrip("/") + "/"):
        value.refuse(f"{inner!r} is not below host_path ({root})", "write it relative to host_path")


def _one_way_in(section: Section, _found: Mapping[str, Any]) -> None:
    present = [name for name in ("connection_string", "account_url") if name in section]
    if len(present) != 1:
        section.refuse(
            "exactly one of connection_string and account_url is expected, "
            f"not {'both' if present else 'none'}"
        )
    section.exclude("connection_string", "credential", reason="the connection string holds the credential")


def _storage(*checks: Any, **fields: Field | Shape) -> Record:
    counts = {"save_experiment_best": 0, "save_trial_best": 1, "save_trial_latest": 1}
    return record({**{name: Field(COUNT, number) for name, number in counts.items()}, **fields}, *checks)


_PREFIX = word("a prefix without '..'", r"(?s:(?!(.*/)?\.\.(/|$)).*)")
_BUCKET = Field(TEXT, required="the name of the bucket")
_DEAD_PATH = Field(TEXT, ignored=DEAD)

STORAGE = Union(
    "type",
    {
        "shared_fs": _storage(
            _below_root,
            host_path=Field(ABSOLUTE, required="an absolute path that every node has"),
            storage_path=TEXT,
            propagation=Field(TEXT, "rprivate"),
            container_path=_DEAD_PATH,
            checkpoint_path=_DEAD_PATH,
            tensorboard_path=_DEAD_PATH,
        ),
        "directory": _storage(container_path=Field(ABSOLUTE, required="an absolute path as the run sees it")),
        "s3": _storage(
            bucket=_BUCKET, access_key=SECRET, secret_key=SECRET, endpoint_url=TEXT, prefix=_PREFIX
        ),
        "gcs": _storage(bucket=_BUCKET, prefix=_PREFIX),
        "azure": _storage(
            _one_way_in,
            container=Field(TEXT, required="the name of the container"),
            connection_string=SECRET,
            account_url=TEXT,
            credential=SECRET,
        ),
    },
    completes=True,
    removed=("hdfs",),
)

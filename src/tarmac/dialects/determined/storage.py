"""Where checkpoints are kept: the union `checkpoint_storage` of a configuration. Part of the table."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.schema import Field, Record, Union, Whole, Word
from tarmac.dialects.section import Section

SECRET = Word(secret=True)
ABSOLUTE = Word(wanted="an absolute path", pattern=r"/.*")

CHECKPOINTS = "/mnt/checkpoints"
"""Where every run of tarmac finds its checkpoint directory, as far as its node allows."""

DEFAULT_STORAGE: Mapping[str, Any] = {"type": "directory", "container_path": CHECKPOINTS}
"""Where the settings of the cluster name no storage: checkpoints go with the run's own."""


def _below_root(section: Section, found: Mapping[str, Any]) -> None:
    """`storage_path` is a directory of `host_path`, however it is written."""
    root, inner = found.get("host_path"), found.get("storage_path")
    if not isinstance(root, str) or not isinstance(inner, str):
        return
    whole = posixpath.normpath(posixpath.join(root, inner))
    if whole != posixpath.normpath(root) and not whole.startswith(posixpath.normpath(root).rstrip("/") + "/"):
        value = section.get("storage_path")
        assert value is not None
        value.refuse(f"{inner!r} is not below host_path ({root})", "write it relative to host_path")


def _one_way_in(section: Section, _found: Mapping[str, Any]) -> None:
    given = [name for name in ("connection_string", "account_url") if name in section]
    if len(given) != 1:
        section.refuse(
            f"exactly one of connection_string and account_url is expected, not {'both' if given else 'none'}"
        )
    section.exclude("connection_string", "credential", reason="the connection string holds the credential")


_COMMON: Mapping[str, Field] = {
    "save_experiment_best": Field(shape=Whole(least=0), default=0),
    "save_trial_best": Field(shape=Whole(least=0), default=1),
    "save_trial_latest": Field(shape=Whole(least=0), default=1),
}
_PREFIX = Word(wanted="a prefix without '..'", forbidden=r"(^|/)\.\.(/|$)")
_BUCKET = Field(shape=Word(), required="the name of the bucket")

STORAGE = Union(
    key="type",
    completes=True,
    cases={
        "shared_fs": Record(
            fields={
                **_COMMON,
                "host_path": Field(shape=ABSOLUTE, required="an absolute path that every node has"),
                "storage_path": Field(shape=Word()),
                "propagation": Field(shape=Word(), default="rprivate"),
                "container_path": Field(shape=Word(), ignored="has had no effect for a long time"),
                "checkpoint_path": Field(shape=Word(), ignored="has had no effect for a long time"),
                "tensorboard_path": Field(shape=Word(), ignored="has had no effect for a long time"),
            },
            checks=(_below_root,),
        ),
        "directory": Record(
            fields={
                **_COMMON,
                "container_path": Field(shape=ABSOLUTE, required="an absolute path as the run sees it"),
            }
        ),
        "s3": Record(
            fields={
                **_COMMON,
                "bucket": _BUCKET,
                "access_key": Field(shape=SECRET),
                "secret_key": Field(shape=SECRET),
                "endpoint_url": Field(shape=Word()),
                "prefix": Field(shape=_PREFIX),
            }
        ),
        "gcs": Record(fields={**_COMMON, "bucket": _BUCKET, "prefix": Field(shape=_PREFIX)}),
        "azure": Record(
            fields={
                **_COMMON,
                "container": Field(shape=Word(), required="the name of the container"),
                "connection_string": Field(shape=SECRET),
                "account_url": Field(shape=Word()),
                "credential": Field(shape=SECRET),
            },
            checks=(_one_way_in,),
        ),
    },
    removed={"hdfs": "has been removed and is not valid for new experiments"},
)

"""The union `checkpoint_storage` of a configuration: the place of checkpoints. Part of `fields`."""

import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.located import Problems, Table
from tarmac.dialects.schema import Field, Record, Shape
from tarmac.dialects.section import Fields, Section, Value
from tarmac.systems.determined.schema import ABSOLUTE, COUNT, DEAD, SECRET, TEXT, record, union, word

CHECKPOINTS = "/mnt/checkpoints"
"""The path of the checkpoint directory in every run of tarmac, as far as its node allows."""

DEFAULT_STORAGE: Mapping[str, Any] = {"type": "directory", "container_path": CHECKPOINTS}
"""Used if the cluster's settings name no storage: the run's own checkpoint directory."""


def _below_root(section: Section, found: Mapping[str, Any]) -> None:
    """Check that `storage_path` is inside `host_path`, in any notation."""
    root, inner, value = found.get("host_path"), found.get("storage_path"), section.get("storage_path")
    if not isinstance(root, str) or not isinstance(inner, str) or value is None:
        return
    whole = posixpath.normpath(posixpath.join(root, inner))
    if whole != posixpath.normpath(root) and not whole.startswith(posixpath.normpath(root).rstrip("/") + "/"):
        value.refuse(f"{inner!r} is not below host_path ({root})", "write it relative to host_path")


_WAYS_IN = ("connection_string", "account_url")


def _one_way_in(section: Section, _found: Mapping[str, Any]) -> None:
    section.exclude(*_WAYS_IN, reason="either says how the storage is reached")
    section.exclude("connection_string", "credential", reason="the connection string holds the credential")


def _storage(*checks: Any, **fields: Field | Shape) -> Record:
    counts = {"save_experiment_best": 0, "save_trial_best": 1, "save_trial_latest": 1}
    return record({**{name: Field(COUNT, number) for name, number in counts.items()}, **fields}, *checks)


_PREFIX = word("a prefix without '..'", r"(?s:(?!(.*/)?\.\.(/|$)).*)")
_BUCKET = Field(TEXT, required="the name of the bucket")
_DEAD_PATH = Field(TEXT, ignored=DEAD)

STORAGE = union(
    "type",
    {
        "shared_fs": _storage(
            _below_root,
            host_path=Field(TEXT, required="a path that every node has"),
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


def note_missing(value: Value, storage: Mapping[str, Any]) -> None:
    """Report the missing fields of a storage, merged from the cluster's and `value`."""
    case = STORAGE.cases.get(str(storage.get("type")))
    if case is None or not isinstance(value.node, Table):
        return
    known = frozenset(case.fields) | {"type"}
    section = Section(value.node, Fields(known=known), problems=Problems(""), path=value.path)
    section.problems = value.problems  # unknown fields are already reported
    for name, rule in case.fields.items():
        if rule.required is not None and storage.get(name) is None and name not in section:
            section.missing(name, rule.required)
    if storage.get("type") == "azure" and not any(storage.get(name) for name in _WAYS_IN):
        section.missing(_WAYS_IN[0], f"or '{_WAYS_IN[1]}'")

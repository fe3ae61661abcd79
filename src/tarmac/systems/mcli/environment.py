"""Reads `env_variables` (a mapping, or the older list of pairs), `metadata` and the experiment trackers.

Called by the reader.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tarmac.dialects.kinds import Misfit, text
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.names import LABEL_NAME, LABEL_VALUE, VARIABLE_NAME, reserved
from tarmac.dialects.native.environment import EXPANSION
from tarmac.dialects.plain import to_plain
from tarmac.dialects.schema import MISSING, Field, record
from tarmac.dialects.section import Value
from tarmac.systems.mcli.fields import WORD, Vocabulary

MOST_METADATA = 200
LONGEST_METADATA_KEY = 200
LARGEST_METADATA_BYTES = 100_000
DATABRICKS = "databricks"
"""The default destination of MLflow."""


def read_env(value: Value) -> dict[str, str]:
    """Variables by name; warns of those that tarmac sets itself, and ignores them."""
    variables: dict[str, str] = {}
    for key, item in _pairs(value):
        name = key.read(VARIABLE_NAME, None)
        if name is None or (isinstance(item.node, Scalar) and item.node.empty):
            continue
        found = item.read(text("a text or number"), None)
        if found is None:
            continue
        if reserved(name):
            key.warn(f"{name} is set by tarmac for every worker: it is passed over", key.node)
            continue
        variables[name] = found
        if EXPANSION.search(found):
            item.warn("no shell reads this value: its '$' stays as it is")
    return variables


def read_metadata(value: Value) -> Any:
    """All metadata, and the part of it that can be labels of the run."""
    labels: dict[str, str] = {}
    if not isinstance(value.node, Table):
        value.expected("a mapping from names to values")
        return MISSING
    metadata: dict[str, Any] = to_plain(value.node)
    if len(metadata) > MOST_METADATA:
        value.refuse(f"{len(metadata)} keys; at most {MOST_METADATA} are allowed")
    for key, item in value.entries("a mapping"):
        name = getattr(key.node, "text", "")
        if len(name) > LONGEST_METADATA_KEY:
            key.refuse(f"the key has {len(name)} characters; {LONGEST_METADATA_KEY} are allowed")
        if len(str(metadata[name]).encode("utf-8", "replace")) > LARGEST_METADATA_BYTES:
            item.refuse(f"the value is larger than {LARGEST_METADATA_BYTES:,} bytes", "put it into a file")
        if isinstance(item.node, Scalar) and not item.node.empty and _is_label(key.node, item.node):
            labels[name] = item.node.text
    return {name: item for name, item in metadata.items() if item is not None}, labels


def _pairs(value: Value) -> Iterator[tuple[Value, Value]]:
    """Names and values of either form."""
    if not isinstance(value.node, Items):
        yield from value.entries("a mapping from names to values, or a list of {key: ..., value: ...},")
        return
    for item in value.items("a list"):
        table = {key.text: node for key, node in item.node.entries} if isinstance(item.node, Table) else {}
        key = next((table[word] for word in ("key", "envKey", "name") if word in table), None)
        found = next((table[word] for word in ("value", "envValue") if word in table), None)
        if key is None or found is None:
            item.refuse(
                "each variable is a mapping with 'key' and 'value'", "such as {key: LR, value: '0.1'}"
            )
            continue
        path = f"{item.path}.value"
        yield Value(key, f"{item.path}.key", value.problems), Value(found, path, value.problems)


def _is_label(key: Any, item: Scalar) -> bool:
    try:
        LABEL_NAME.read(key)
        LABEL_VALUE.read(item)
    except Misfit:
        return False
    return all(character.isprintable() for character in item.text)


_TRACKER_MLFLOW = Vocabulary(
    shape=record(
        {
            "tracking_uri": Field(WORD, sets="MLFLOW_TRACKING_URI"),
            "experiment_path": Field(WORD, sets="MLFLOW_EXPERIMENT_NAME"),
        },
        make=partial(dict, MLFLOW_TRACKING_URI=DATABRICKS),
    ),
    renamed={"experiment_name": "experiment_path"},
    ignored={"model_registry_path": "your own code registers the model; MLFLOW_REGISTRY_URI is not set"},
)
_TRACKER_WANDB = Vocabulary(
    shape=record(
        {"project": Field(WORD, sets="WANDB_PROJECT"), "entity": Field(WORD, sets="WANDB_ENTITY")}, make=dict
    )
)
TRACKER = Vocabulary(
    shape=record(
        {
            "mlflow": _TRACKER_MLFLOW.part("a mapping with experiment_path"),
            "wandb": _TRACKER_WANDB.part("a mapping with project and entity"),
        },
        make=lambda mlflow=None, wandb=None: {**(mlflow or {}), **(wandb or {})},
    )
)
"""The variables of `experiment_tracker`."""

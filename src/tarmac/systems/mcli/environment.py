"""Reads `env_variables` (a mapping, or the older list of pairs), `metadata` and the experiment trackers.

Called by the reader.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.dialects.kinds import Misfit, text
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.names import LABEL_NAME, LABEL_VALUE, VARIABLE_NAME, reserved
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Section, Value
from tarmac.systems.mcli.fields import TRACKER, TRACKER_MLFLOW, TRACKER_WANDB, read_known, read_word

MOST_METADATA = 200
LONGEST_METADATA_KEY = 200
LARGEST_METADATA_BYTES = 100_000
DATABRICKS = "databricks"
"""The default destination of MLflow."""

EXPANSION = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)
"""A variable that a shell would expand."""


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


def read_metadata(value: Value) -> tuple[dict[str, Any], dict[str, str]]:
    """All metadata, and the part of it that can be labels of the run."""
    labels: dict[str, str] = {}
    if not isinstance(value.node, Table):
        value.expected("a mapping from names to values")
        return {}, labels
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


def read_trackers(run: Section) -> dict[str, str]:
    """The variables of `experiment_tracker`."""
    value = run.get("experiment_tracker")
    section = read_known(value, TRACKER, description="a mapping with mlflow or wandb") if value else None
    if section is None:
        return {}
    variables: dict[str, str | None] = {}
    if (mlflow := section.get("mlflow")) is not None:
        description = "a mapping with experiment_path"
        if (found := read_known(mlflow, TRACKER_MLFLOW, description=description)) is not None:
            variables["MLFLOW_TRACKING_URI"] = read_word(found.get("tracking_uri")) or DATABRICKS
            variables["MLFLOW_EXPERIMENT_NAME"] = read_word(found.get("experiment_path"))
    if (wandb := section.get("wandb")) is not None:
        description = "a mapping with project and entity"
        if (found := read_known(wandb, TRACKER_WANDB, description=description)) is not None:
            variables["WANDB_PROJECT"] = read_word(found.get("project"))
            variables["WANDB_ENTITY"] = read_word(found.get("entity"))
    return {name: item for name, item in variables.items() if item is not None}


def expand_variables(value: Value, word: str, variables: Mapping[str, str]) -> str:
    """The text with `$NAME` replaced by values of env_variables, as the platform's shell did."""

    def named(found: re.Match[str]) -> str:
        name = found[1].strip("{}")
        if name not in variables:
            value.refuse(f"{found[0]!r} is not known here", f"set {name} in env_variables, or write it out")
        return variables.get(name, "")

    return EXPANSION.sub(named, word)


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

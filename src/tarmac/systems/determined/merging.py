"""Brings a configuration into one form, merges it with the cluster's and adds defaults. Called by `reader`.

Pure functions over JSON, along the table. The form is the one that Determined itself passes to a run.
"""

from collections.abc import Mapping
from typing import Any

from tarmac.dialects.schema import Alternatives, Custom, Field, ListOf, Record, Shape
from tarmac.systems.determined.environment import DEVICE_KINDS, LEGACY_KINDS
from tarmac.systems.determined.schema import Merge, Union

Json = Any


def normalise(config: Mapping[str, Json]) -> dict[str, Json]:
    """The configuration with its short forms expanded."""
    found = dict(config)
    if isinstance(environment := found.get("environment"), Mapping):
        found["environment"] = {
            name: _per_kind(value) if name in ("image", "environment_variables") else value
            for name, value in environment.items()
        }
    if isinstance(parameters := found.get("hyperparameters"), Mapping):
        found["hyperparameters"] = _hyperparameters(parameters)
    if isinstance(resources := found.get("resources"), Mapping) and "devices" in resources:
        found["resources"] = {**resources, "devices": [_device(item) for item in resources["devices"]]}
    if "log_policies" in found:
        found["log_policies"] = [_policy(item) for item in found["log_policies"]]
    return found


def merge(upper: Mapping[str, Json], lower: Mapping[str, Json], shape: Record) -> dict[str, Json]:
    """The values of `upper`, then those of `lower`; both normalised."""
    found = {**lower, **upper}
    for name in upper.keys() & lower.keys():
        rule = shape.fields.get(name)
        if rule is not None:
            found[name] = _merged_field(upper[name], lower[name], rule)
    return found


def complete(config: Mapping[str, Json], shape: Record) -> dict[str, Json]:
    """The configuration with every field: missing ones have their default, or null."""
    return {
        name: _completed_field(config.get(name), rule)
        for name, rule in shape.fields.items()
        if rule.refused is None and not ((shape.sparse or rule.legacy) and name not in config)
    }


def _per_kind(value: Json) -> Json:
    if not isinstance(value, Mapping):
        return dict.fromkeys(DEVICE_KINDS, value)
    return {LEGACY_KINDS.get(kind, kind): item for kind, item in value.items()}


def _hyperparameters(parameters: Mapping[str, Json]) -> dict[str, Json]:
    return {name: _hyperparameter(value) for name, value in parameters.items()}


def _hyperparameter(value: Json) -> Json:
    if isinstance(value, Mapping):
        return value if "type" in value else _hyperparameters(value)
    return {"type": "const", "val": value}


def _device(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    source, target, *mode = value.split(":")
    return {"host_path": source, "container_path": target, "mode": mode[0] if mode else "mrw"}


def _policy(value: Mapping[str, Json]) -> Json:
    """A policy with its action in the current form: a mapping with `type`, the older form, becomes a word."""
    action = value.get("action")
    return {**value, "action": action["type"]} if isinstance(action, Mapping) else value


def _merged_field(upper: Json, lower: Json, rule: Field) -> Json:
    if upper is None or lower is None:
        return lower if upper is None else upper
    match rule.merge:
        case Merge.APPEND:
            return [*lower, *upper]
        case Merge.PATHS:
            taken = {item["container_path"] for item in upper}
            return [*upper, *(item for item in lower if item["container_path"] not in taken)]
        case Merge.POLICIES:
            names = {item.get("name") for item in upper} - {None}
            return [*upper, *(item for item in lower if item.get("name") not in names and item not in upper)]
        case Merge.DEEP:
            return _deep(upper, lower, rule.shape)
    return upper


def _deep(upper: Json, lower: Json, shape: Shape) -> Json:
    if not isinstance(upper, Mapping) or not isinstance(lower, Mapping):
        return upper
    match shape:
        case Record():
            return merge(upper, lower, shape)
        case Alternatives() if shape.table is not None:
            return _deep(upper, lower, shape.table)
        case Union():
            case = shape.cases.get(str(lower.get(shape.key)))
            if case is not None and upper.get(shape.key) in (None, lower.get(shape.key)):
                return merge(upper, lower, case)
            shared = frozenset.intersection(*(frozenset(each.fields) for each in shape.cases.values()))
            return {**{name: value for name, value in lower.items() if name in shared}, **upper}
        case Custom():
            return _deep_hyperparameters(upper, lower)
    return upper


def _deep_hyperparameters(upper: Mapping[str, Json], lower: Mapping[str, Json]) -> dict[str, Json]:
    """Merge nested mappings, but never hyperparameters with a type."""
    found = {**lower, **upper}
    for name in upper.keys() & lower.keys():
        pair = (upper[name], lower[name])
        if all(isinstance(item, Mapping) and "type" not in item for item in pair):
            found[name] = _deep_hyperparameters(*pair)
    return found


def _completed_field(value: Json, rule: Field) -> Json:
    if rule.merge is Merge.POLICIES and value is not None:
        value = _merged_field(value, rule.default, rule)
    if value is None:
        value = rule.default
    return value if value is None else _completed(value, rule.shape)


def _completed(value: Json, shape: Shape) -> Json:
    match shape:
        case Record() if isinstance(value, Mapping):
            return complete(value, shape)
        case Union() if isinstance(value, Mapping):
            case = shape.cases.get(str(value.get(shape.key)))
            return value if case is None else {shape.key: value[shape.key], **complete(value, case)}
        case ListOf() if isinstance(value, (list, tuple)):
            return [_completed(item, shape.item) for item in value]
        case Alternatives() if isinstance(value, Mapping) and shape.table is not None:
            return _completed(value, shape.table)
        case Alternatives() if (
            isinstance(value, list) and shape.table is not None and shape.items is not None
        ):
            return _completed({kind: list(value) for kind in DEVICE_KINDS}, shape.table)
    return value

"""`det experiment set ...` and labels: changes of an experiment by a user. Pure; called by its routes.

A change applies to the spec of the experiment, and through it to the configuration of its later trials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.kinds import Kind, Misfit, integer, number, yaml12
from tarmac.dialects.located import Problems, Scalar, from_plain
from tarmac.dialects.schema import ListOf, read_value, record
from tarmac.dialects.section import Value
from tarmac.model import codec
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.reader import NAME, labels_of
from tarmac.systems.determined.statuses import FIRST, LAST, SCALE

NOTES = "notes"
"""The key of an experiment's notes among the facts of its spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes in a request, as parts of the configuration; None removes the notes."""

    config: Mapping[str, Any]
    notes: str | None = None

    @property
    def place(self) -> dict[str, Any]:
        """The changed parts of the queue position, with tarmac's names, and its scale of the priority."""
        resources, place = self.config.get("resources", {}), {}
        if "priority" in resources:
            place["priority"] = SCALE.to_tarmac(resources["priority"])
        if "weight" in resources:
            place["weight"] = resources["weight"]
        if "resource_pool" in resources:
            place["pool"] = resources["resource_pool"]
        return place


def changes_of(body: Mapping[str, Any]) -> Changes:
    """The changes in a request; raises InvalidInput. Unknown fields are ignored, and null changes nothing,
    but for `max_slots`, which it removes.
    """
    problems, given = Problems(None), _snake_keys(body)
    config = read_value(Value(from_plain(given), "", problems), _CHANGES)
    problems.raise_any()
    if "resources" in config and given["resources"].get("max_slots", 0) is None:
        config["resources"]["max_slots"] = None
    notes = config.pop(NOTES, None)
    return Changes(config=config, notes=notes)


def changed(spec: RunSpec, changes: Changes) -> RunSpec:
    """The spec of an experiment with the changes applied."""
    facts, config = dict(spec.conventions.facts), changes.config
    if changes.notes is not None:
        facts[NOTES] = changes.notes
    if spec.conventions.system == NAME:
        facts["config"] = whole = _over(facts["config"], config)
        labels = labels_of(whole) if _LABELS & config.keys() else spec.labels
    else:
        labels = _native_labels(spec.labels, config)
    resources, search, storage = config.get("resources", {}), spec.search, config.get("checkpoint_storage")
    assert search is not None, "an experiment searches"
    if "max_slots" in resources:
        search = codec.replace(search, max_slots=resources["max_slots"])
    if storage is not None:
        policy = {name.removeprefix("save_"): count for name, count in storage.items()}
        search = codec.replace(search, checkpoints=codec.replace(search.checkpoints, **policy))
    place = changes.place
    return codec.replace(
        spec,
        name=names.fit(config["name"]) if "name" in config else spec.name,
        labels=labels,
        priority=place.get("priority", spec.priority),
        weight=place.get("weight", spec.weight),
        target=codec.replace(spec.target, pool=place.get("pool", spec.target.pool)),
        search=search,
        conventions=codec.replace(spec.conventions, facts=facts),
    )


_LABELS = frozenset({"labels", "description"})
"""The parts of a configuration that become labels, and may be changed."""


def _native_labels(labels: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an experiment from a run file, which include its description."""
    found = dict(labels)
    if "labels" in config:
        fit = [names.fit(label) for label in config["labels"]]
        found = {label: labels.get(label, "") for label in fit if label}
    if description := config.get("description", labels.get("description")):
        found["description"] = description
    return found


def _over(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    sections = {
        name: {**(config.get(name) or {}), **value} if isinstance(value, Mapping) else value
        for name, value in changes.items()
    }
    return {**config, **sections}


def _snake_keys(value: Any) -> Any:
    """The same JSON with the keys of configurations."""
    if not isinstance(value, Mapping):
        return value
    return {snake(key): _snake_keys(item) for key, item in value.items()}


def snake(name: str) -> str:
    """A JSON name converted to snake case, the style of configurations."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def camel(name: str) -> str:
    """The inverse of `snake`."""
    head, *rest = name.split("_")
    return f"{head}{''.join(word.capitalize() for word in rest)}"


def _read_text(scalar: Scalar) -> str:
    if not scalar.quoted:
        raise Misfit()
    return scalar.text


def _read_name(scalar: Scalar) -> str:
    if not names.fit(_read_text(scalar)):
        raise Misfit()
    return scalar.text


_record = partial(record, nulls=True, excuse=lambda *_: True)
_TEXT = Kind("a text", _read_text)
_COUNT = replace(integer(0), description="a whole number from 0 on")
_PRIORITY = replace(integer(FIRST, LAST), description=f"a whole number between {FIRST} and {LAST}")
_CHANGES = _record(
    {
        "name": Kind("a text with a letter or digit", _read_name),
        "description": _TEXT,
        "labels": ListOf(_TEXT, "a list of texts"),
        "resources": _record(
            {
                "priority": _PRIORITY,
                "weight": number(above=0, of=yaml12),
                "resource_pool": _TEXT,
                "max_slots": _COUNT,
            }
        ),
        "checkpoint_storage": _record(
            dict.fromkeys(("save_experiment_best", "save_trial_best", "save_trial_latest"), _COUNT)
        ),
        NOTES: _TEXT,
    }
)

"""`det experiment set ...` and labels: changes of an experiment by a user. Pure; called by its routes.

A change applies to the spec of the experiment, and through it to the configuration of its later trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tarmac.dialects import names
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.reader import NAME, labels_of
from tarmac.systems.determined.statuses import FIRST, LAST, to_tarmac

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
            place["priority"] = to_tarmac(resources["priority"])
        if "weight" in resources:
            place["weight"] = resources["weight"]
        if "resource_pool" in resources:
            place["pool"] = resources["resource_pool"]
        return place


def changes_of(body: Mapping[str, Any]) -> Changes:
    """The changes in a request; raises InvalidInput. Unknown fields are ignored."""
    config = _section("", body, _CHANGES)
    notes = config.pop(NOTES, None)
    return Changes(config=config, notes=notes)


def changed(spec: RunSpec, changes: Changes) -> RunSpec:
    """The spec of an experiment with the changes applied."""
    facts, config = dict(spec.conventions.facts), changes.config
    if changes.notes is not None:
        facts[NOTES] = changes.notes
    if spec.conventions.system == NAME:
        facts["config"] = whole = _over(facts["config"], config)
        labels = labels_of(whole)
    else:
        labels = _native_labels(spec.labels, config)
    resources, search, storage = config.get("resources", {}), spec.search, config.get("checkpoint_storage")
    assert search is not None, "an experiment searches"
    if "max_slots" in resources:
        search = replace(search, max_slots=resources["max_slots"])
    if storage is not None:
        policy = {name.removeprefix("save_"): count for name, count in storage.items()}
        search = replace(search, checkpoints=replace(search.checkpoints, **policy))
    place = changes.place
    return replace(
        spec,
        name=names.fit(config["name"]) if "name" in config else spec.name,
        labels=labels,
        priority=place.get("priority", spec.priority),
        weight=place.get("weight", spec.weight),
        target=replace(spec.target, pool=place.get("pool", spec.target.pool)),
        search=search,
        conventions=replace(spec.conventions, facts=facts),
    )


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


def _section(name: str, found: Any, readers: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{name}: a mapping is expected")
    given = {snake(key): value for key, value in found.items()}
    return {
        key: read(f"{name}.{key}".lstrip("."), given[key])
        for key, read in readers.items()
        if key in given and (given[key] is not None or read is _slots)
    }


def snake(name: str) -> str:
    """A JSON name converted to snake case, the style of configurations."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def camel(name: str) -> str:
    """The inverse of `snake`."""
    head, *rest = name.split("_")
    return f"{head}{''.join(word.capitalize() for word in rest)}"


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or any(not _is_legible(character) for character in value):
        raise InvalidInput(f"{name}: a text is expected, not {value!r:.60}")
    return value


def _is_legible(character: str) -> bool:
    """Whether databases can store a character: neither NUL nor half of a surrogate pair."""
    return character != "\0" and not "\ud800" <= character <= "\udfff"


def _name(name: str, value: Any) -> str:
    if not names.fit(_text(name, value)):
        raise InvalidInput(f"{name}: a letter or digit is expected in {value!r:.60}")
    return str(value)


def _labels(name: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInput(f"{name}: a list of texts is expected, not {value!r:.60}")
    return [_text(name, label) for label in value]


def _priority(name: str, value: Any) -> int:
    """A priority in Determined's scale; raises InvalidInput."""
    if type(value) is not int or not FIRST <= value <= LAST:
        raise InvalidInput(f"{name} must be between {FIRST} and {LAST}, not {value!r:.20}")
    return value


def _weight(name: str, value: Any) -> float:
    """A weight; raises InvalidInput."""
    if type(value) not in (int, float) or value <= 0:
        raise InvalidInput(f"{name}: a number above 0 is expected, not {value!r:.20}")
    return float(value)


def _slots(name: str, value: Any) -> int | None:
    """A number of slots; None means no limit."""
    return None if value is None else _count(name, value)


def _count(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInput(f"{name}: a whole number from 0 on is expected, not {value!r:.20}")
    return value


_RESOURCES = {"priority": _priority, "weight": _weight, "resource_pool": _text, "max_slots": _slots}
_STORAGE = dict.fromkeys(("save_experiment_best", "save_trial_best", "save_trial_latest"), _count)
_CHANGES: Mapping[str, Callable[[str, Any], Any]] = {
    "name": _name,
    "description": _text,
    "labels": _labels,
    "resources": partial(_section, readers=_RESOURCES),
    "checkpoint_storage": partial(_section, readers=_STORAGE),
    NOTES: _text,
}

"""`det experiment continue --config`: continues with a changed configuration, for `routes.experiments`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tarmac.control.decisions.trials import merged
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment
from tarmac.model.record import replace
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.changing import NOTES, Changes, changed
from tarmac.systems.determined.gateway.creating import submission_of
from tarmac.systems.determined.gateway.records.experiments import config_of
from tarmac.systems.determined.overrides import values_of
from tarmac.systems.determined.reader import NAME

_CHANGED = ("name", "description", "labels")
_CHANGED_RESOURCES = ("priority", "weight", "resource_pool", "max_slots")
"""The parts of a configuration that `det experiment set` changes after its creation."""


def override_of(text: Any) -> dict[str, Any]:
    """The overrides of a configuration in a request; raises InvalidInput."""
    if not isinstance(text, str):
        raise InvalidInput("overrideConfig: the text of a configuration is expected")
    found = values_of(text, "overrideConfig") if text.strip() != "null" else {}
    return {name: value for name, value in found.items() if value is not None}


def continued(call: Call, experiment: Experiment, spec: RunSpec, override: Mapping[str, Any]) -> RunSpec:
    """The spec of an experiment with parts of its configuration changed: its text is read again.

    Raises InvalidInput with all problems of the changed configuration.
    """
    if spec.conventions.system != NAME:
        raise InvalidInput(
            "an experiment of a run file is continued with the configuration that it has",
            hint="tarmac experiment create begins another with a changed one",
        )
    before = merged(values_of(spec.source, "config"), _since(config_of(spec)))
    searcher, others = before.get("searcher"), override.get("searcher")
    if isinstance(searcher, dict) and isinstance(others, dict) and "max_length" in others:
        searcher.pop("max_length", None)  # `{epochs: 2}` replaces `{batches: 10}`
    after = submission_of(call, json.dumps(merged(before, override)), experiment.code_digest).spec
    notes = spec.conventions.facts.get(NOTES)
    return replace(changed(after, Changes(config={}, notes=notes)), code=spec.code, start_paused=False)


def _since(config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by users since a configuration was written, as far as they concern its fields."""
    resources = config.get("resources") or {}
    found = {name: config[name] for name in _CHANGED if config.get(name) is not None}
    place = {name: resources[name] for name in _CHANGED_RESOURCES if resources.get(name) is not None}
    return {**found, "resources": place}

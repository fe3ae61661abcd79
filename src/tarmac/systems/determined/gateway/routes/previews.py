"""`det preview-search`: previews a search, in the form of each release. Listed in `application`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.api import PreviewLine
from tarmac.systems.determined.gateway.calls import Call, post
from tarmac.systems.determined.gateway.creating import preview_of


def _preview(call: Call) -> Any:
    """The preview of a search, in the form of 0.38 and in that of earlier releases."""
    config = call.field("config", {})
    lines = _previewed(call, config)
    values = config if isinstance(config, dict) else {}
    unit = _unit(values.get("searcher"))
    trials = [
        {"count": line.trials, "unit": {"name": unit, "value": line.length, "maxLength": line.length is None}}
        for line in lines
    ]
    simulated = [
        {
            "occurrences": line.trials,
            "operations": [{"type": "RUNNABLE_OPERATION_TYPE_TRAIN", "length": str(line.length or 0)}],
        }
        for line in lines
    ]
    return {
        "summary": {"config": values, "trials": trials},
        "simulation": {"config": values, "seed": 0, "trials": simulated},
    }


def _unit(searcher: Any) -> str:
    """The unit of a search's lengths."""
    found = searcher if isinstance(searcher, Mapping) else {}
    length = found.get("max_length")
    if isinstance(length, Mapping) and length:
        return str(next(iter(length)))
    return str(found.get("time_metric") or "batches")


def _old_preview(call: Call) -> Any:
    """The preview for 0.23, which sends only the configuration."""
    lines = _previewed(call, call.body)
    return {"results": {f"{line.length}" if line.length else "": line.trials for line in lines}}


def _previewed(call: Call, config: Any) -> Sequence[PreviewLine]:
    if isinstance(config, Mapping):
        config = {"entrypoint": "true", **config}  # the entrypoint does not matter
    text = config if isinstance(config, str) else json.dumps(config)
    return call.gateway.service.plane.experiments.preview(preview_of(call, text))


ROUTES = (
    post("/api/v1/preview-hp-search", _preview),
    post("/searcher/preview", _old_preview),
)

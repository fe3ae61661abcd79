"""The request of simulated engines: a launch that prints itself without its secrets. Used by both of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tarmac.node.attempt.document import Launch, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRequest:
    """The request to the simulated engine: the launch itself."""

    launch: Launch

    @property
    def attempt_id(self) -> str:
        return self.launch.attempt_id

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """An empty mapping: this engine stores no artifacts."""
        return {}

    def __str__(self) -> str:
        document = to_json(self.launch) | {"token": "(hidden)"}
        return json.dumps(document, indent=2, sort_keys=True)

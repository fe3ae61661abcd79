"""Answers a script without launching: prints each launch as a native run file. Called by `tarmac launch`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.client.launching import json_text
from tarmac.dialects.native.reader import write
from tarmac.dialects.overrides import override
from tarmac.model.codec import encode
from tarmac.model.errors import NotFound
from tarmac.systems.clusterfudge.scripts.gateway import DIALECT, FILENAME, replied, request_form
from tarmac.systems.registry import read


@dataclass(slots=True)
class DryRun:
    """Calls `tell` with the native run file of each launch; sends and stores nothing."""

    tell: Callable[[str], None]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    _launches: dict[str, dict[str, Any]] = field(default_factory=dict)

    def reply(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, or the error for the script."""
        return replied(self._answer, question)

    def _answer(self, question: Mapping[str, Any], notices: list[str]) -> Any:
        if question["ask"] == "create":
            return self._create(question, notices)
        named = str(question["launch"])
        for form in self._launches.values():
            if named in (form["id"], str(form["launch_id"]), form["run_id"]):
                return None if question["ask"] == "stop" else _details(form)
        raise NotFound(f"there is no launch {named!r} in this dry run")

    def _create(self, question: Mapping[str, Any], notices: list[str]) -> Any:
        reading = read(
            json_text(question["request"]),
            filename=FILENAME,
            directory=question["directory"],
            dialect=DIALECT,
        )
        notices += [f"warning: {warning}" for warning in reading.warnings]
        spec = override(reading.spec, self.overrides) if self.overrides else reading.spec
        self.tell(write(spec, directory=question["directory"]))
        run_id = f"dry-run-{len(self._launches) + 1}"
        form = request_form(run_id, spec.name, json.loads(json.dumps(encode(spec))), spec.source)
        form |= {"status": "LAUNCH_STATUS_PENDING", "launched_by": "", "submitted_at": 0.0}
        self._launches[run_id] = form
        return form


def _details(form: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a launch that was not started."""
    replicas = {entry["short_name"]: entry["replicas"] for entry in form["jobs"]}
    processes = sum(entry["replicas"] * len(entry["commands"]) for entry in form["jobs"])
    return {
        "launch": form,
        "commands": [],
        "replicas": {name: {"pending": count, "total": count} for name, count in replicas.items()},
        "processes": {"pending": processes, "total": processes},
        "logs": [],
    }

"""From the body of a request to a `control.Submission`: read, override, clone, inherit, check the code.

Called by the intake, in its thread, and by the routes for dry runs and checks. Everything wrong with a
submission is found here, before anything is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from tarmac.control.admission import Submission
from tarmac.control.service import ControlPlane
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.home import INHERITED_VARIABLES
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.server.rim import Caller
from tarmac.spec import Reading, override, read

_READINGS_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A submission as it was sent: `source` or `clone`, and what goes with it."""

    caller: Caller
    source: str | None = None
    filename: str = "run.yaml"
    directory: str = "/"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    clone: str | None = None
    submitter: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A submission ready for the control plane, and what its reader warned of."""

    submission: Submission
    warnings: tuple[str, ...]


def prepare(draft: Draft, plane: ControlPlane) -> Prepared:
    """Make a draft ready; raises InvalidInput with all that is wrong, NotFound for an unknown clone."""
    reading = _reading(draft, plane)
    spec = reading.spec
    if draft.overrides:
        spec = override(spec, draft.overrides)
    if draft.caller.local:
        spec = _inheriting(spec, draft.submitter)
    if spec.code is not None:
        _check_code(spec.code, filename=draft.filename)
    submission = Submission(
        spec=spec,
        user=draft.caller.user,
        # Without a key of its own it gets one, so that the intake may submit it again after a clash.
        idempotency_key=draft.idempotency_key or uuid4().hex,
    )
    return Prepared(submission=submission, warnings=reading.warnings)


@lru_cache(maxsize=_READINGS_KEPT)
def read_once(source: str, filename: str, directory: str) -> Reading:
    """The reading of a text. Readers are pure, so a text that is submitted a thousand times is read once."""
    return read(source, filename=filename, directory=directory)


def _reading(draft: Draft, plane: ControlPlane) -> Reading:
    if draft.clone is not None:
        if draft.source is not None:
            raise InvalidInput("a submission is either a run file or a clone of a run, not both")
        return Reading(spec=plane.find(draft.clone).spec)
    if draft.source is None:
        raise InvalidInput("a submission needs the text of a run file, or a run to clone")
    return read_once(draft.source, draft.filename, draft.directory)


def _inheriting(spec: RunSpec, submitter: Mapping[str, str]) -> RunSpec:
    inherited = {name: submitter[name] for name in INHERITED_VARIABLES if name in submitter}
    if not inherited:
        return spec
    return replace(spec, environment=replace(spec.environment, inherited=inherited))


def _check_code(code: LocalDirectory, *, filename: str) -> None:
    """Refuse a code directory that cannot be copied, while the user still looks."""
    path = Path(code.path)
    if not path.exists():
        found = "does not exist"
    elif not path.is_dir():
        found = "is not a directory"
    elif not os.access(path, os.R_OK | os.X_OK):
        found = "cannot be read"
    else:
        return
    raise InvalidInput(
        [
            Problem(
                message=f"code: {code.path} {found}", file=filename, hint="code names the directory to copy"
            )
        ]
    )

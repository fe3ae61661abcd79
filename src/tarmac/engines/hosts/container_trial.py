"""Tries whether runs can start in images on a host, for the checks of clusters. Called by engines."""

from __future__ import annotations

import json

from tarmac.engines.hosts.host import Host
from tarmac.model.errors import Unavailable
from tarmac.node.container.trial import Trial
from tarmac.node.starting import Installation

_TRIAL_S = 60.0


def try_containers(host: Host, installation: Installation, driver: str) -> Trial:
    """Create a container there, in a process of its own. The runner's package must be installed."""
    argv = installation.trial(str(host.layout.home), driver)
    try:
        code, out, err = host.run(argv, variables={}, timeout_s=_TRIAL_S)
        return Trial(**json.loads(out)) if code == 0 else _not_tried(err.decode(errors="replace"))
    except (Unavailable, ValueError, TypeError) as problem:
        return _not_tried(str(problem))


def _not_tried(reason: str) -> Trial:
    last = (reason.strip().splitlines() or ["no answer"])[-1]
    return Trial(works=False, text=f"it could not be tried: {last[:300]}")

"""Burst runs: a cluster is rented for each. This version rents none. Called by `admission`."""

from __future__ import annotations

from tarmac.model.errors import Refused
from tarmac.model.spec import Mode, RunSpec


def refuse_burst(spec: RunSpec) -> None:
    """Raise Refused for a burst run that does not bring a cluster of its own, as a rehearsal does."""
    if spec.mode is Mode.BURST and spec.rehearsal is None:
        raise Refused(
            f"{spec.name} is a burst run: it needs a cluster rented for it alone, and this version of tarmac "
            "provisions no cloud clusters",
            hint="--rehearse NODESxSLOTS gives it one on this machine, --mode batch a place in the queue",
        )

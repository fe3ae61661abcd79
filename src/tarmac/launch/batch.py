"""What is asked of a cluster's own queue for a run, beside its nodes. Called by `compose`."""

from __future__ import annotations

from tarmac.model.launch import BatchLaunch
from tarmac.model.spec import RunSpec


def batch_launch(spec: RunSpec) -> BatchLaunch:
    """The request for the job of a run."""
    return BatchLaunch(directives=spec.slurm)

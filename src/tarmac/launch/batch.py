"""What is asked of a cluster's own queue for a run, beside its nodes. Called by `compose`."""

from __future__ import annotations

from tarmac.launch.batch_script import site_directives
from tarmac.model.launch import BatchLaunch
from tarmac.model.resources import ACCELERATOR
from tarmac.model.run import Allocation
from tarmac.model.spec import RunSpec


def batch_launch(spec: RunSpec, allocation: Allocation) -> BatchLaunch:
    """The request for the job of a run."""
    return BatchLaunch(
        pool=allocation.pool,
        slot_type=_slot_type(spec, allocation),
        directives={**site_directives(spec), **spec.slurm},
        starts_steps=spec.site is not None and spec.rehearsal is None,
    )


def _slot_type(spec: RunSpec, allocation: Allocation) -> str | None:
    """The type of the slots, where the run asks for one: any other would do where it does not."""
    kinds = allocation.slot_types
    types = {role.slot_type or role.replica_resources.slot_type for role in spec.roles}
    return kinds[0] if len(kinds) == 1 and not types <= {None, ACCELERATOR} else None

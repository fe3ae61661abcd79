"""The request to a cluster's own queue for a run, besides its nodes. Called by `compose`."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.launch.batch_script import site_directives
from tarmac.model.resources import ACCELERATOR, is_of_type
from tarmac.model.run import Allocation, Run
from tarmac.model.spec import Mode, RunSpec
from tarmac.node.attempt.document import BatchLaunch


def batch_launch(run: Run, allocation: Allocation) -> BatchLaunch:
    """The request for the job of a run."""
    spec = run.spec
    turns_share = spec.mode is Mode.CYCLE and spec.site is None and not spec.secrets
    return BatchLaunch(
        pool=allocation.pool,
        slot_types=_slot_types(spec, allocation),
        directives={**site_directives(spec), **spec.slurm},
        starts_steps=spec.site is not None and spec.rehearsal is None,
        hostnames=spec.target.hostnames,
        excluded=(*spec.target.excluded, *run.excluded_nodes),
        # A job has the key to the secrets of its first attempt alone.
        turns=spec.max_rapid_cycles - run.turns if turns_share else 0,
    )


def _slot_types(spec: RunSpec, allocation: Allocation) -> Mapping[str, str]:
    """The slot type of each role that requests one; roles without a request take any type."""
    found = {}
    for role in spec.roles:
        target = role.slot_type or role.replica_resources.slot_type
        offered = (kind for kind in allocation.slot_types if is_of_type(kind, target))
        if target not in (None, ACCELERATOR) and (kind := next(offered, None)) is not None:
            found[role.name] = kind
    return found

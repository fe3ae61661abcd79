"""The variables that the ISC promises to experiments, beyond those of every worker (I14-I16).

Used by the dialect; docs/using/dialects/isc.md lists the variables, and a test compares. The runner sets the
artifact paths, which are the same for runs of any dialect.
"""

import json
from collections.abc import Mapping

from tarmac.dialects.dialect import with_variables
from tarmac.dialects.names import fit
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch

DATA = "/data"
DATASET_AT_DATA = "dataset_id"
"""The fact that names the dataset whose content is at /data itself, as with the retired key."""


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with the variables in every worker, and those equal on every node in the setup steps."""
    launch = _with_dataset_at_data(launch, run.spec.conventions.facts.get(DATASET_AT_DATA))
    ranks = {node.address: node.rank for node in launch.nodes}
    common = {
        "STRONG_EXPERIMENT_ID": run.id,
        "STRONG_EXPERIMENT_NAME": _name(run),
        "STRONG_COMPUTE_MODE": run.spec.mode.value,
        "STRONG_CYCLE_COUNT": str(attempt.number),
        "STRONG_CYCLE_TIME_MS": str(round((attempt.allotted_s or 0) * 1000)),
        "IP_TO_RANK_MAPPING": json.dumps(ranks, separators=(",", ":")),
    }

    def family(node: NodeLaunch, worker: WorkerLaunch) -> Mapping[str, str]:
        return {**common, "RANK": worker.env.get("NODE_RANK", str(node.rank))}

    return with_variables(launch, family)._replace(setup_env={**launch.setup_env, **common})


def _with_dataset_at_data(launch: Launch, identifier: object) -> Launch:
    """The launch with this dataset's content at /data as well, if /data/ID is among its mounts."""

    def quote(node: NodeLaunch) -> NodeLaunch:
        one = next((mount for mount in node.mounts if mount.target == f"{DATA}/{identifier}"), None)
        if one is None:
            return node
        # Before the others, which are inside it.
        return node._replace(mounts=(one._replace(target=DATA, variables=()), *node.mounts))

    return launch._replace(nodes=tuple(quote(node) for node in launch.nodes))


def _name(run: Run) -> str:
    """The name as written in the file, unless the run has since been given another one."""
    written = run.spec.conventions.facts.get("experiment_name")
    return written if isinstance(written, str) and (fit(written) or "experiment") == run.name else run.name

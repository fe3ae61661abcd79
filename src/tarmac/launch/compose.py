"""From a run, its attempt and their nodes to a `Launch`: everything that starts a worker.

Called by `control`, for the attempt itself and for a dry run. Pure: facts that only a node knows are left to
its runner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tarmac.launch import variables
from tarmac.launch.batch import batch_launch
from tarmac.launch.container import container_launch
from tarmac.launch.environment import (
    common_environment,
    on_one_machine,
    setup_environment,
    worker_environment,
)
from tarmac.launch.secrets import secret_launches
from tarmac.launch.starting import hooks_launch, setup_launches, worker_argv
from tarmac.launch.topology import Assignment, assignments
from tarmac.model.cluster import Disks, Node
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import ArtifactRules, FailureBehaviour, Mode, RunSpec
from tarmac.node.attempt.document import (
    ArtifactSync,
    Launch,
    LogPattern,
    Mount,
    NodeLaunch,
    WorkerLaunch,
)
from tarmac.node.attempt.protocol import ARTIFACT_KINDS

LEAST_LIMIT_S = 1.0
"""The time limit of an attempt whose run has used up its own: the attempt ends by it with that cause."""


def compose(run: Run, attempt: Attempt, nodes: Mapping[str, Node]) -> Launch:
    """The launch of an attempt; `nodes` maps at least the names in its allocation to their facts."""
    spec, placed = run.spec, _placed(run.spec, attempt)
    ranked, setup = tuple(nodes[name] for name in placed), setup_environment(run, attempt)
    one_machine = on_one_machine(ranked)
    common = common_environment(run, attempt, setup=setup, first=ranked[0], one_machine=one_machine)

    def worker(assignment: Assignment, node: Node) -> WorkerLaunch:
        return WorkerLaunch(
            role=assignment.role.name,
            replica=assignment.placement.replica,
            worker=assignment.index,
            argv=worker_argv(spec, assignment.process.command, of=assignment),
            env=worker_environment(
                assignment,
                common=common,
                nodes=nodes,
                cpus=node.capacity.cpus / (len(ranked) if one_machine else 1),
                neighbours=len(placed[node.name]),
            ),
            slots=assignment.slots,
            stop_on_failure=assignment.role.on_failure is FailureBehaviour.STOP,
            cpus=assignment.limits.cpus,
            memory_bytes=assignment.limits.memory_bytes,
            rank=assignment.rank,
        )

    return Launch(
        attempt_id=attempt.id,
        run_id=run.id,
        run_name=run.name,
        number=attempt.number,
        token=attempt.token,
        code_digest=run.code_digest,
        setup=setup_launches(spec),
        setup_env=setup,
        nodes=tuple(
            _node(spec, node, rank, tuple(worker(assignment, node) for assignment in placed[node.name]))
            for rank, node in enumerate(ranked)
        ),
        time_limit_s=_time_left_s(run),
        pause_signal=spec.pause.signal,
        grace_s=spec.pause.grace_s,
        ran_s=run.ran_s,
        allotted_s=attempt.allotted_s,
        hooks=hooks_launch(spec),
        allots_setup=spec.mode is not Mode.CYCLE,  # a turn begins when its workers run, a block when placed
        sync=ArtifactSync(_every_s(spec.artifacts), spec.input_artifacts),
        secrets=secret_launches(spec.secrets),
        batch=batch_launch(run, attempt.allocation),
        log_policies=tuple(
            LogPattern(policy.pattern, policy.label, policy.action) for policy in spec.log_policies
        ),
        container=container_launch(spec),
        rehearsal=spec.rehearsal is not None,
    )


def _node(spec: RunSpec, node: Node, rank: int, workers: tuple[WorkerLaunch, ...]) -> NodeLaunch:
    return NodeLaunch(
        node=node.name,
        address=node.address,
        rank=rank,
        workers=workers,
        files=_files(spec),
        mounts=_mounts(spec),
        own_disk=node.disks is Disks.OWN,
    )


def _every_s(rules: ArtifactRules) -> Mapping[str, float]:
    return {kind: getattr(rules, f"{kind}_every_s") for kind in ARTIFACT_KINDS}


def _placed(spec: RunSpec, attempt: Attempt) -> dict[str, list[Assignment]]:
    """The workers of each node.

    A batch job begins on its first node and starts processes on the others itself.
    """
    placed: dict[str, list[Assignment]] = {name: [] for name in attempt.allocation.nodes}
    for assignment in assignments(spec.roles, attempt.allocation):
        if spec.site is None or assignment.node_rank == 0:
            placed[assignment.placement.node].append(assignment)
    return placed


def _time_left_s(run: Run) -> float | None:
    """The rest of the time limit, which counts the running time of all attempts together."""
    limit_s = run.spec.time_limit_s
    return None if limit_s is None else max(limit_s - run.ran_s, LEAST_LIMIT_S)


_PARAMETERS = "config/parameters.json"


def _files(spec: RunSpec) -> Mapping[str, str]:
    """The small files of every node, by relative path."""
    if spec.parameters is None:
        return {}
    return {_PARAMETERS: json.dumps(spec.parameters, indent=2, ensure_ascii=False) + "\n"}


def _mounts(spec: RunSpec) -> tuple[Mount, ...]:
    """The literal paths of every node; binds below the working directory stay relative."""
    binds = tuple(
        Mount(source=bind.source, target=bind.target, read_only=bind.read_only) for bind in spec.binds
    )
    if spec.parameters is None:
        return binds
    return (
        *binds,
        Mount(source=_PARAMETERS, target=f"/mnt/{_PARAMETERS}", variables=(variables.PARAMETERS,)),
    )

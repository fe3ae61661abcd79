"""`RunSpec`: the one model of what a user asks for, whatever dialect it was written in.

Readers in `spec` make it; `control` stores it verbatim and never changes it; `launch` turns it and an
allocation into argv and environment per worker. Everything is frozen: a changed spec is another spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tarmac.model.cluster import Cluster, NodeGroup, rehearsal_cluster
from tarmac.model.described import renamed
from tarmac.model.resources import Resources

DEFAULT_GRACE_S = 30.0
"""Seconds between the signal of a pause or stop and SIGKILL, where the spec names none."""

DEFAULT_RAPID_CYCLES = 3
"""How many turns a cycle run has where its file does not say (I7)."""

DEFAULT_ROLE = "main"
"""The name of the only role of a run file that lists no roles."""


class Mode(StrEnum):
    """How a run shares its pool over time."""

    BATCH = "batch"
    CYCLE = "cycle"
    INTERRUPTIBLE = "interruptible"
    BURST = "burst"


class Queueing(StrEnum):
    """What to do when the cluster is busy."""

    WAIT = "wait"
    FAIL_IF_BUSY = "fail_if_busy"


class FailureBehaviour(StrEnum):
    """What a worker's failure means for the other workers of its run."""

    STOP = "stop"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a process executes: a bash script (its lines kept, run with errexit and pipefail) or an argv.

    Exactly one of `script` and `argv` is set.
    """

    script: str | None = None
    argv: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.script if self.script is not None else " ".join(self.argv or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One supervised process of a replica, with what it needs."""

    command: Command
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A group of same-command replicas: fixed `replicas`, or `slots` in all (never both).

    With `slots`, the placement makes nodes x slots per node of it, equal where possible on the fewest
    nodes, and the one process is run once per node. With `replicas`, each replica sits on one node and
    its resources are the sum of its processes'. `uneven` allows the slots to be split unequally where no
    equal split fits the cluster.
    """

    name: str = DEFAULT_ROLE
    processes: tuple[Process, ...]
    replicas: int | None = 1
    slots: int | None = None
    slot_type: str | None = None
    uneven: bool = False
    on_failure: FailureBehaviour = FailureBehaviour.STOP

    @property
    def replica_resources(self) -> Resources:
        """What one replica needs on its node; meaningless for a role with `slots`."""
        total = Resources()
        for process in self.processes:
            total = total.plus(process.resources)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which nodes a run may use; empty means any. `excluded` are host names it may not."""

    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None
    hostnames: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A cluster that exists for one run only: `nodes` x `slots_per_node`, or one of the shape `described`."""

    nodes: int = 0
    slots_per_node: int = 0
    described: Cluster | None = None

    def cluster(self, run_id: str) -> Cluster:
        """The cluster of the run with this id."""
        shape = self.described or Cluster(
            name="", groups=(NodeGroup(nodes=self.nodes, slots=self.slots_per_node),)
        )
        return renamed(shape, rehearsal_cluster(run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDirectory:
    """Code from a directory of the submitter's machine, copied at submission."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePolicy:
    """How workers are asked to leave: the signal (None: no signal, only `should_pause`), then SIGKILL."""

    signal: str | None = "SIGTERM"
    grace_s: float = DEFAULT_GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the workers find around them.

    `inherited` are the submitter's PATH, VIRTUAL_ENV and CONDA_PREFIX, recorded at submission to the
    user's own embedded server; `variables` (what the run file says) win over them.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    venv: str | None = None
    inherited: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything a run is asked to be.

    `source` is the text the user submitted, verbatim, in the syntax that `dialect` names.
    A bigger `priority` is sooner; a bigger `weight` has more of a fair share. `max_rapid_cycles` is how many
    turns a cycle run has. `time_limit_s` counts the running time of all attempts together.
    """

    name: str
    roles: tuple[Role, ...]
    project: str = "default"
    dialect: str = "native"
    source: str = ""
    code: LocalDirectory | None = None
    target: Target = field(default_factory=Target)
    rehearsal: Rehearsal | None = None
    mode: Mode = Mode.BATCH
    max_rapid_cycles: int = DEFAULT_RAPID_CYCLES
    priority: int = 0
    weight: float = 1.0
    queueing: Queueing = Queueing.WAIT
    retries: int = 0
    time_limit_s: float | None = None
    pause: PausePolicy = field(default_factory=PausePolicy)
    setup: tuple[Command, ...] = ()
    environment: Environment = field(default_factory=Environment)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """How many slots the whole run needs."""
        return sum(
            role.slots if role.slots is not None else (role.replicas or 0) * role.replica_resources.slots
            for role in self.roles
        )

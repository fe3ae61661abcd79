"""`RunSpec`: the one model of what a user asks for, whatever dialect it was written in.

Readers in `dialects` make it; `control` stores it verbatim and never changes it; `launch` turns it and an
allocation into argv and environment per worker. Everything is frozen: a changed spec is another spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tarmac.model.array import RunArray
from tarmac.model.cluster import Cluster, NodeGroup, rehearsal_cluster
from tarmac.model.dependency import Dependency
from tarmac.model.described import renamed
from tarmac.model.log_policy import LogPolicy
from tarmac.model.notification import Subscription
from tarmac.model.resources import DEFAULT_ROLE, Resources
from tarmac.model.search import SearchSpec, TrialPlace
from tarmac.model.secret import SecretUse
from tarmac.model.site import SiteRequest

DEFAULT_GRACE_S = 30.0
"""Seconds between the signal of a pause or stop and SIGKILL, where the spec names none."""

DEFAULT_RAPID_CYCLES = 3
"""How many turns a cycle run has where its file does not say (I7)."""


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


class Launcher(StrEnum):
    """What starts the processes of a role that train together, one for each of its slots.

    All but those ON_FIRST_NODE start one process for each slot, which finds its world in the variables that
    its framework reads.
    """

    TORCH = "torch"
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    JAX = "jax"
    HOROVOD = "horovod"
    PLAIN = "plain"
    MPI = "mpi"


ON_FIRST_NODE = frozenset({Launcher.MPI})
"""The launchers whose command is run once, on the first node: a program there starts the processes of all."""


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
    equal split fits the cluster; `nodes` is on how many they must be split, equally (None: the fewest).
    With a `launcher` the only process is run once for each slot, and for a replica without slots once.
    """

    name: str = DEFAULT_ROLE
    processes: tuple[Process, ...]
    replicas: int | None = 1
    slots: int | None = None
    slot_type: str | None = None
    nodes: int | None = None
    uneven: bool = False
    on_failure: FailureBehaviour = FailureBehaviour.STOP
    launcher: Launcher | None = None

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
    """A cluster for one run, or one experiment: `nodes` x `slots_per_node`, or of the shape `described`."""

    nodes: int = 0
    slots_per_node: int = 0
    described: Cluster | None = None

    def cluster(self, run_id: str) -> Cluster:
        """The cluster of the run or experiment with this id."""
        shape = self.described or Cluster(
            name="", groups=(NodeGroup(nodes=self.nodes, slots=self.slots_per_node),)
        )
        return renamed(shape, rehearsal_cluster(run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDirectory:
    """Code from a directory (or archive) of the submitter's machine, copied at submission.

    What stays behind is said by the ignore file `ignore_file` at its top, where a dialect has one of its own,
    else by `.tarmacignore`, `.gitignore` or the usual defaults; and by the patterns of `exclude`, in the
    syntax of .gitignore. With `whole`, only `exclude` counts. More than `limit_bytes` is refused.
    `digest` names the snapshot where the submitter has sent it already: then `path` is not read.
    """

    path: str
    ignore_file: str | None = None
    exclude: tuple[str, ...] = ()
    whole: bool = False
    limit_bytes: int | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Code from a git repository: `commit` (long or short) wins over `branch`; with neither, its default."""

    url: str
    branch: str | None = None
    commit: str | None = None
    submodules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A setup step: the repository in `path`, relative to the working directory, on each node.

    `install` are arguments of `pip install`, run inside it, as they would be written in a shell.
    """

    repository: Repository
    path: str
    install: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonPackages:
    """A setup step: what `pip install` is given, into an environment that only such runs share.

    With `imported`, only where the code imports that package, and the run's Python does not have it.
    """

    requirements: tuple[str, ...]
    upgrade: bool = False
    imported: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPackages:
    """A setup step: packages of the node's own distribution."""

    packages: tuple[str, ...]


SetupStep = Checkout | PythonPackages | SystemPackages | Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Commands around the workers, in this order: before_login, before, the workers, after, after_login.

    Those of the login node run once for the attempt, the others on the node of rank 0 (K6).
    """

    before_login: tuple[Command, ...] = ()
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    after_login: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A directory or file of the node, seen at `target` (absolute, or below the work directory)."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRules:
    """How often each kind of artifact is synced while an attempt runs; all are at its end too (I14)."""

    checkpoint_every_s: float = 600.0
    crud_every_s: float = 600.0
    lossy_every_s: float = 30.0
    log_every_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """Which system's variables, files and words hold in the run, by the name of its dialect.

    `facts` (JSON) are what that dialect needs for them beyond the spec, such as a whole configuration with
    its defaults. They never hold a secret.
    """

    system: str = "native"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePolicy:
    """How workers are asked to leave: the signal (None: no signal, only `should_pause`), then SIGKILL."""

    signal: str | None = "SIGTERM"
    grace_s: float = DEFAULT_GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the workers find around them.

    `inherited` are the submitter's PATH, VIRTUAL_ENV and CONDA_PREFIX, recorded at submission to the
    user's own embedded server; `variables` (what the run file says) win over them. `image` is the container
    image that everything of the run is started in, unless a submission or its server said that it is
    `without_container`. With `pull_always` its registry is asked also where a node has an image of that name.
    `shared_memory_bytes` is the size of /dev/shm in it (None: as much as a node gives). `modules` are loaded
    on each node, in order, before anything else.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    venv: str | None = None
    image: str | None = None
    without_container: bool = False
    pull_always: bool = False
    shared_memory_bytes: int | None = None
    modules: tuple[str, ...] = ()
    inherited: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything a run is asked to be.

    `source` is the text the user submitted, verbatim, in the syntax that `dialect` names.
    A bigger `priority` is sooner; a bigger `weight` has more of a fair share. `max_rapid_cycles` is how many
    turns a cycle run has. `stop_on_nan`: a worker that reports a metric that is not finite fails.
    `time_limit_s` counts the running time of all attempts together. `unique_name`: the
    name gets a short random end when the run is accepted. `start_paused`: it is set aside before it could
    start, and waits to be resumed; no run file says so, a submission does. `datasets` and `input_artifacts`
    are ids; `parameters` (JSON, None: none given) reach the run as a file. `site` is what a site's batch
    system is asked for beyond what the rest says; `slurm` are directives for its job where a Slurm runs it
    ("": without a value, None: dropped). `after` are the runs whose ends it waits for before it may start;
    `array` makes equal runs of it, one for each index. With a `search` it is of an experiment, whose trials
    are runs of the same spec with values in place of it; `trial` says of which experiment a run is one.
    `notify` are those who are told what happens to it; `log_policies` act where it fails.
    """

    name: str
    roles: tuple[Role, ...]
    project: str = "default"
    dialect: str = "native"
    source: str = ""
    conventions: Conventions = field(default_factory=Conventions)
    unique_name: bool = False
    code: LocalDirectory | Repository | None = None
    target: Target = field(default_factory=Target)
    rehearsal: Rehearsal | None = None
    mode: Mode = Mode.BATCH
    max_rapid_cycles: int = DEFAULT_RAPID_CYCLES
    priority: int = 0
    weight: float = 1.0
    queueing: Queueing = Queueing.WAIT
    after: tuple[Dependency, ...] = ()
    array: RunArray | None = None
    start_paused: bool = False
    retries: int = 0
    stop_on_nan: bool = False
    time_limit_s: float | None = None
    pause: PausePolicy = field(default_factory=PausePolicy)
    setup: tuple[SetupStep, ...] = ()
    hooks: Hooks = field(default_factory=Hooks)
    environment: Environment = field(default_factory=Environment)
    binds: tuple[Bind, ...] = ()
    datasets: tuple[str, ...] = ()
    input_artifacts: tuple[str, ...] = ()
    artifacts: ArtifactRules = field(default_factory=ArtifactRules)
    parameters: Mapping[str, Any] | None = None
    secrets: tuple[SecretUse, ...] = ()
    site: SiteRequest | None = None
    slurm: Mapping[str, str | None] = field(default_factory=dict)
    search: SearchSpec | None = None
    trial: TrialPlace | None = None
    notify: tuple[Subscription, ...] = ()
    log_policies: tuple[LogPolicy, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def rehearsed(self, run_id: str) -> Cluster | None:
        """The cluster of its rehearsal: the run's own, or of a trial that of its experiment."""
        owner = run_id if self.trial is None else self.trial.experiment
        return None if self.rehearsal is None else self.rehearsal.cluster(owner)

    def target_of(self, run_id: str) -> Target:
        """Which nodes the run with this id may use: in a rehearsal those of its cluster."""
        cluster = self.rehearsed(run_id)
        return self.target if cluster is None else replace(self.target, cluster=cluster.name)

    @property
    def slots(self) -> int:
        """How many slots the whole run needs."""
        return sum(
            role.slots if role.slots is not None else (role.replicas or 0) * role.replica_resources.slots
            for role in self.roles
        )

"""`RunSpec`: the one model of what a user asks for, in whatever dialect it was written.

Readers in `dialects` make it; `control` stores it verbatim and never changes it; `launch` turns it and an
allocation into argv and environment per worker. Everything is frozen: a changed spec is another spec.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import field

from tarmac.model.array import Dependency, RunArray
from tarmac.model.burst.shapes import BurstRequest
from tarmac.model.cluster import BURST_PREFIX, Cluster, NodeGroup, rehearsal_cluster, renamed
from tarmac.model.codec import StoredRecord, replace
from tarmac.model.lifecycle import Mode
from tarmac.model.notification import Subscription
from tarmac.model.progress import LogPolicy
from tarmac.model.resources import DEFAULT_ROLE, Resources
from tarmac.model.search import SearchSpec, TrialPlace
from tarmac.model.secret import SecretUse
from tarmac.model.site import SiteRequest

DEFAULT_GRACE_S = 30.0
"""Seconds between the signal of a pause or stop and SIGKILL, if the spec has none."""

DEFAULT_RAPID_CYCLES = 3
"""The number of turns of a cycle run whose file sets none (I7)."""


class Queueing(StrEnum):
    """The reaction to a busy cluster."""

    WAIT = "wait"
    FAIL_IF_BUSY = "fail_if_busy"


class FailureBehaviour(StrEnum):
    """The effect of a worker's failure on the other workers of its run."""

    STOP = "stop"
    CONTINUE = "continue"


class Launcher(StrEnum):
    """The program that starts the processes of a role that train together, one for each of its slots.

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
"""The launchers whose command runs once, on the first node: a program there starts all processes."""


class Command(StoredRecord, frozen=True, kw_only=True):
    """The command of a process: a bash script (its lines kept, run with errexit and pipefail) or an argv.

    Exactly one of `script` and `argv` is set.
    """

    script: str | None = None
    argv: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.script if self.script is not None else " ".join(self.argv or ())


class Process(StoredRecord, frozen=True, kw_only=True):
    """One supervised process of a replica, with its resources."""

    command: Command
    resources: Resources = Resources()


class Role(StoredRecord, frozen=True, kw_only=True):
    """A group of same-command replicas: fixed `replicas`, or `slots` in all (never both).

    With `slots`, the placement splits them over nodes, equally if possible and on the fewest nodes, and the
    one process runs once per node. With `replicas`, each replica is on one node and its resources are the sum
    of its processes'. `uneven` allows an unequal split if no equal one fits the cluster; `nodes` is the
    number of nodes for an equal split (None: the fewest). With a `launcher` the only process runs once for
    each slot, and once for a replica without slots.
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
        """The resources of one replica on its node; meaningless for a role with `slots`."""
        total = Resources()
        for process in self.processes:
            total = total.plus(process.resources)
        return total


class Target(StoredRecord, frozen=True, kw_only=True):
    """The nodes that a run may use; empty means any. `excluded` are host names that it may not use."""

    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None
    hostnames: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


class Rehearsal(StoredRecord, frozen=True, kw_only=True):
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


class LocalDirectory(StoredRecord, frozen=True, kw_only=True, tag="directory"):
    """Code from a directory (or archive) of the submitter's machine, copied at submission.

    Files are left out by the ignore file `ignore_file` at its top if a dialect has its own, otherwise by
    `.tarmacignore`, `.gitignore` or the usual defaults; and by the patterns of `exclude`, in the syntax of
    .gitignore. With `whole`, only `exclude` counts. More than `limit_bytes` is refused. `extra_files` (path
    in the copy: file of that machine) are part of the copy in any case, and count for no limit. `digest`
    names the snapshot if the submitter has sent it already: then `path` is not read.
    """

    path: str
    ignore_file: str | None = None
    exclude: tuple[str, ...] = ()
    whole: bool = False
    limit_bytes: int | None = None
    extra_files: Mapping[str, str] = field(default_factory=dict)
    digest: str | None = None


class Repository(StoredRecord, frozen=True, kw_only=True, tag="repository"):
    """Code from a git repository: `commit` (long or short) wins over `branch`; with neither, its default."""

    url: str
    branch: str | None = None
    commit: str | None = None
    submodules: bool = False


class Checkout(StoredRecord, frozen=True, kw_only=True, tag="checkout"):
    """A setup step: the repository in `path`, relative to the working directory, on each node.

    `install` are arguments of `pip install`, run inside it, as they would be written in a shell.
    """

    repository: Repository
    path: str
    install: str | None = None


class PythonPackages(StoredRecord, frozen=True, kw_only=True, tag="python"):
    """A setup step: arguments of `pip install`, into an environment that only such runs share.

    With `imported`, only if the code imports that package and the run's Python does not have it.
    """

    requirements: tuple[str, ...]
    upgrade: bool = False
    imported: str | None = None


class SystemPackages(StoredRecord, frozen=True, kw_only=True, tag="system"):
    """A setup step: packages of the node's own distribution."""

    packages: tuple[str, ...]


class SetupCommand(Command, frozen=True, kw_only=True, tag="command"):
    """A setup step: a command on each node."""


SetupStep = Checkout | PythonPackages | SystemPackages | SetupCommand


class Hooks(StoredRecord, frozen=True, kw_only=True):
    """Commands around the workers, in this order: before_login, before, the workers, after, after_login.

    Those of the login node run once for the attempt, the others on the node of rank 0 (K6).
    """

    before_login: tuple[Command, ...] = ()
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()
    after_login: tuple[Command, ...] = ()


class Bind(StoredRecord, frozen=True, kw_only=True):
    """A directory or file of the node, visible at `target` (absolute, or below the work directory)."""

    source: str
    target: str
    read_only: bool = False


class ArtifactRules(StoredRecord, frozen=True, kw_only=True):
    """The seconds between syncs of each kind of artifact during an attempt; its end syncs all (I14)."""

    checkpoint_every_s: float = 600.0
    crud_every_s: float = 600.0
    lossy_every_s: float = 30.0
    log_every_s: float = 10.0


class Conventions(StoredRecord, frozen=True, kw_only=True):
    """The system whose variables, files and words apply in the run, by the name of its dialect.

    `facts` (JSON) are data of that dialect beyond the spec, such as a whole configuration with its defaults.
    They never hold a secret.
    """

    system: str = "native"
    facts: Mapping[str, Any] = field(default_factory=dict)


class PausePolicy(StoredRecord, frozen=True, kw_only=True):
    """How workers are asked to leave: the signal (None: no signal, only `should_pause`), then SIGKILL."""

    signal: str | None = "SIGTERM"
    grace_s: float = DEFAULT_GRACE_S


class Environment(StoredRecord, frozen=True, kw_only=True):
    """The environment of the workers.

    `inherited` are the submitter's PATH, VIRTUAL_ENV and CONDA_PREFIX, recorded at submission to the user's
    own embedded server; `variables` (of the run file) win over them. `image` is the container image that all
    processes of the run start in, unless the submission or its server set `without_container`. With
    `pull_always` nodes ask its registry even if they have an image of that name. `shared_memory_bytes` is the
    size of its /dev/shm (None: the node's default). `modules` are loaded on each node, in order, before
    anything else.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    venv: str | None = None
    image: str | None = None
    without_container: bool = False
    pull_always: bool = False
    shared_memory_bytes: int | None = None
    modules: tuple[str, ...] = ()
    inherited: Mapping[str, str] = field(default_factory=dict)


class RunSpec(StoredRecord, frozen=True, kw_only=True):
    """The full specification of a run.

    `source` is the text that the user submitted, verbatim, in the syntax that `dialect` names. A bigger
    `priority` is sooner; a bigger `weight` has more of a fair share. `max_rapid_cycles` is the number of
    turns of a cycle run. `stop_on_nan`: a worker that reports a metric that is not finite fails.
    `time_limit_s` counts the running time of all attempts together. `unique_name`: the name gets a short
    random end when the run is accepted. `start_paused`: it is paused before it could start, and waits to be
    resumed; only a submission sets it, no run file. `datasets` and `input_artifacts` are ids; `parameters`
    (JSON, None: none given) reach the run as a file. `site` has requests to a site's batch system beyond the
    rest; `burst` has its wishes about rented machines; `slurm` are directives for its job on a Slurm cluster
    ("": without a value, None: dropped). `after` are the runs whose ends it waits for before it may start;
    `array` makes equal runs of it, one for each index. With a `search` it is the spec of an experiment, whose
    trials are runs of the same spec with values in place of the search; `trial` names the experiment of a
    trial. `notify` are subscriptions to its events; `log_policies` act if it fails. `hook_changes` has a
    sentence for each change by the site's submission hook. `system_user` is the account of the nodes for its
    processes (None: that of the server); `login` is the scope of the secrets with the credentials for its
    cluster. The server sets both at the submission, by the account of the submitter.
    """

    name: str
    roles: tuple[Role, ...]
    project: str = "default"
    dialect: str = "native"
    source: str = ""
    conventions: Conventions = Conventions()
    unique_name: bool = False
    code: LocalDirectory | Repository | None = None
    target: Target = Target()
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
    pause: PausePolicy = PausePolicy()
    setup: tuple[SetupStep, ...] = ()
    hooks: Hooks = Hooks()
    environment: Environment = Environment()
    binds: tuple[Bind, ...] = ()
    datasets: tuple[str, ...] = ()
    input_artifacts: tuple[str, ...] = ()
    artifacts: ArtifactRules = ArtifactRules()
    parameters: Mapping[str, Any] | None = None
    secrets: tuple[SecretUse, ...] = ()
    site: SiteRequest | None = None
    burst: BurstRequest | None = None
    slurm: Mapping[str, str | None] = field(default_factory=dict)
    search: SearchSpec | None = None
    trial: TrialPlace | None = None
    notify: tuple[Subscription, ...] = ()
    log_policies: tuple[LogPolicy, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    hook_changes: tuple[str, ...] = ()
    system_user: str | None = None
    login: str | None = None

    def rehearsed(self, run_id: str) -> Cluster | None:
        """The cluster of its rehearsal: the run's own, or for a trial that of its experiment."""
        owner = run_id if self.trial is None else self.trial.experiment
        return None if self.rehearsal is None else self.rehearsal.cluster(owner)

    @property
    def has_own_cluster(self) -> bool:
        """Whether its cluster exists for it alone: a rehearsal, or one that is rented."""
        return self.rehearsal is not None or self.mode is Mode.BURST

    @property
    def is_burst(self) -> bool:
        """Whether it starts on rented machines alone."""
        return self.mode is Mode.BURST and self.rehearsal is None

    @property
    def may_rent(self) -> bool:
        """Whether machines may be rented for it."""
        waits = self.mode is Mode.BATCH and self.rehearsal is None
        return self.is_burst or (waits and self.burst is not None and self.burst.wait_s is not None)

    def target_of(self, run_id: str) -> Target:
        """The nodes that the run with this id may use: those of its own cluster, if it has one."""
        cluster = self.rehearsed(run_id)
        if cluster is not None:
            return replace(self.target, cluster=cluster.name)
        return Target(cluster=BURST_PREFIX + run_id) if self.mode is Mode.BURST else self.target

    @property
    def user_at_cluster(self) -> str | None:
        """The user of its cluster as which it runs: a system user, or a login; None: the engine's own."""
        return self.login if self.system_user is None else self.system_user

    @property
    def slots(self) -> int:
        """The slots of the whole run."""
        return sum(
            role.slots if role.slots is not None else (role.replicas or 0) * role.replica_resources.slots
            for role in self.roles
        )

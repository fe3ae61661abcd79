"""An attempt, ready for an engine: `launch.compose` makes it, `apply_conventions` completes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.log_policy import LogPolicy
from tarmac.model.resources import Resources
from tarmac.model.run import Attempt, Run
from tarmac.model.secret import SecretLaunch
from tarmac.model.spec import ArtifactRules, Checkout, PythonPackages, SystemPackages

SetupLaunch = tuple[str, ...] | Checkout | PythonPackages | SystemPackages
"""A setup step as it is carried out on a node: the argv of a command, or what the node knows how to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLaunch:
    """One worker as it will be started: everything but the node's own paths.

    `index` counts the processes of its replica. `argv` is executed without a shell. `slots` are the
    slot numbers on its node. `rank` is its place among all processes of its role, where a launcher counts
    them. Of the `limits`, processors and memory are meant; 0: not limited.
    """

    role: str
    replica: int
    index: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    slots: tuple[int, ...]
    stop_on_failure: bool
    limits: Resources = field(default_factory=Resources)
    rank: int | None = None

    @property
    def name(self) -> str:
        """`role.replica.index`: the name of its log."""
        return f"{self.role}.{self.replica}.{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A literal path to make true in the private view of the disk that an attempt has on a node.

    `source` is absolute, "." (the working directory), or a file (or directory of files) of
    `NodeLaunch.files`; `/mnt/checkpoints` and its like mean the artifact directory. `target` is absolute.
    `variables` name the target where that holds, else the real source: programs that ask them always find it.
    """

    source: str
    target: str
    read_only: bool = False
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLaunch:
    """What one node of an attempt runs; `rank` is its index among the attempt's nodes.

    `files` (relative path -> text) are written before anything runs, readable by the run alone; `mounts` are
    made true in order. `own_disk`: what the run keeps there is seen by no other node.
    """

    node: str
    address: str
    rank: int
    workers: tuple[WorkerLaunch, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    own_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksLaunch:
    """The commands around the workers, as argvs: `model.spec.Hooks`, ready to be carried out."""

    before_login: tuple[tuple[str, ...], ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    after_login: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLaunch:
    """The image that an attempt runs in, on all of its nodes.

    With `pull_always` its registry is asked for a tag also where a node has an image of that name.
    `credentials` names the secrets that may have those for the registry. `digest` is that of the image in
    which an earlier attempt ran: this one is the same. `shared_memory_bytes` None: as much as a node gives.
    """

    image: str
    pull_always: bool = False
    credentials: tuple[str, ...] = ()
    digest: str | None = None
    shared_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLaunch:
    """What is asked of a cluster's own queue for an attempt, beside its nodes.

    `slot_types` are what the slots of roles are that ask for a type, by role; `directives` as
    `RunSpec.slurm` has them. With `starts_steps` the worker is a job's own script, which starts what else
    runs by the commands of that system. It may have the nodes `hostnames` alone (none: any), not `excluded`.
    """

    pool: str = DEFAULT_POOL
    slot_types: Mapping[str, str] = field(default_factory=dict)
    directives: Mapping[str, str | None] = field(default_factory=dict)
    starts_steps: bool = False
    hostnames: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


NO_BATCH = BatchLaunch()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """An attempt, ready for an engine: made by `launch.compose`, a pure function of run, attempt and nodes.

    `code_digest` names the code snapshot to copy into each node's working directory (None: an empty one).
    `setup` steps run once per node, in order, before the workers, in the same directory, with `setup_env`.
    `time_limit_s` is what is left of the run's limit, after `ran_s` of earlier attempts. After `allotted_s`
    the attempt is to be asked to leave, for its workers to know: from their start, or earlier where setting
    up for long is part of it (`allots_setup`). `artifacts` says how often they are synced, `input_artifacts`
    which versions are placed into the run's own directories before its first workers start. In a `container`
    run steps, hooks and workers (None: on the node itself). With
    `own_packages`, what its commands install with pip is theirs alone, with setup steps or without. With
    `own_directories` each worker starts in a directory of its own, unless there are steps or hooks. The
    `secrets` that the attempt is given are named: their values are in no launch. `batch` is what a cluster
    with a queue of its own is asked for beside. `log_policies` are searched for in the logs of an attempt
    that fails. The nodes of a `rehearsal` need not have the data of the cluster that it stands for.
    """

    attempt_id: str
    run_id: str
    run_name: str
    number: int
    token: str
    code_digest: str | None
    setup: tuple[SetupLaunch, ...]
    setup_env: Mapping[str, str]
    nodes: tuple[NodeLaunch, ...]
    time_limit_s: float | None
    pause_signal: str | None
    grace_s: float
    ran_s: float = 0.0
    allotted_s: float | None = None
    allots_setup: bool = False
    hooks: HooksLaunch = field(default_factory=HooksLaunch)
    artifacts: ArtifactRules = field(default_factory=ArtifactRules)
    input_artifacts: tuple[str, ...] = ()
    own_packages: bool = False
    own_directories: bool = False
    secrets: tuple[SecretLaunch, ...] = ()
    batch: BatchLaunch = NO_BATCH
    log_policies: tuple[LogPolicy, ...] = ()
    container: ContainerLaunch | None = None
    rehearsal: bool = False


ApplyConventions = Callable[[Run, Attempt, Launch], Launch]
"""Adds to a launch what the conventions of the run's system promise: variables, files, mounts. Pure."""


def as_it_is(_run: Run, _attempt: Attempt, launch: Launch) -> Launch:
    """The `ApplyConventions` of no system: every worker gets what tarmac itself promises."""
    return launch

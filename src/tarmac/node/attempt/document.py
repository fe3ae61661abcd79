"""An attempt, ready to be started, and attempt.json, which stores it.

`launch.compose` makes the launch, `apply_conventions` and an engine complete it, the runner, its sidecar and
the engines read it. A reader relies only on the checks here: each field is present and of its type, and the
names of nodes are valid names of directories.

A cluster with a queue of its own grants an attempt its nodes: its runners get them at their start, as a
`GrantedNode`, and the runner fills in the values that were unknown when the attempt was submitted.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Optional

from tarmac.node.attempt import protocol, records
from tarmac.node.attempt.steps import Step
from tarmac.node.files import untrusted
from tarmac.node.files.gitrules import GitRules
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.kernel.system_users import LEAST_UID

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The name of a node, which is also the name of the directory with its part of an attempt."""

NOTHING: Mapping[str, str] = {}

Argv = tuple[str, ...]


class Unreadable(Exception):
    """attempt.json is missing, broken, of another protocol, or has no part for this node."""


class WorkerLaunch(NamedTuple):
    """One worker to start: everything except the node's own paths.

    `worker` counts the processes of its replica. `argv` is executed without a shell. `slots` are the slot
    numbers on its node. `cpus` and `memory_bytes` 0: not limited. `rank` is its index among all processes of
    its role, if tarmac starts them.

    `env` is complete except for the node's own values. The runner adds, where absent, HOME, USER, LOGNAME,
    SHELL, LANG and TMPDIR; and, always, TARMAC_ATTEMPT_TOKEN, the paths of the artifacts
    (`ARTIFACT_VARIABLES`), the SDK's variables, and `sdk` at the end of PYTHONPATH. Workers get no other
    variable of the runner's own environment.
    """

    role: str
    replica: int
    worker: int
    argv: Argv
    env: Mapping[str, str] = NOTHING
    slots: tuple[int, ...] = ()
    stop_on_failure: bool = True
    cpus: float = 0.0
    memory_bytes: int = 0
    rank: Optional[int] = None

    @property
    def name(self) -> str:
        """`role.replica.worker`: the name of its log."""
        return f"{self.role}.{self.replica}.{self.worker}"


Mount = Bind
"""A literal path to provide in the attempt's private view of a node's disk.

The source is absolute, "." (the working directory), or a file or directory below `NodeLaunch.files`;
`/mnt/checkpoints` and its like name the artifact directory. A relative target is below the working directory
(bound after the code is there).
"""


class SecretLaunch(NamedTuple):
    """A secret of the attempt, without its value.

    In the variables "{value}", "{path}" and "{directory}" are replaced by the value, its file (`file`, below
    a directory in memory that is removed at the end) and that file's directory; `target` is a literal path at
    which the file appears, like a mount. The server finds the value by `scope`, the owner, and `name`.
    """

    name: str
    variables: Mapping[str, str] = NOTHING
    file: Optional[str] = None
    target: Optional[str] = None
    scope: str = ""


class ArtifactSync(NamedTuple):
    """The storage of artifacts: the interval of each kind; and `inputs`, the versions to restore first.

    `rejected_by` is the number of an attempt that failed soon after resuming from its checkpoint: this
    attempt resumes from the version before; 0: from the newest again. The hook fills its directories in both
    cases. The engine adds the command (the sidecar), the store, and how long the attempt retries at its start
    and end while the store is unreachable (`patience_s`). Bigger files are stored in pieces of
    `piece_bytes`; 0: of the usual size.
    """

    every_s: Mapping[str, float] = {}
    inputs: tuple[str, ...] = ()
    rejected_by: Optional[int] = None
    command: Argv = ()
    store: str = ""
    patience_s: float = 0.0
    piece_bytes: int = 0


class ContainerLaunch(NamedTuple):
    """The image that the attempt runs in, on all of its nodes.

    With `pull` "always" the runner asks the registry even for a tag that a node already has. `credentials`
    names the secrets that may contain a login for the registry. `digest` is that of the image in which an
    earlier attempt ran: this attempt uses the same. `shared_memory_bytes` None: the node's limit.

    The engine adds `images`, the directory of the node's images; `driver`, the program that makes the
    container (see `container.drivers`; "": the first that works); `shows`, the directories of the node that a
    run's own binds must be below; and `mirrors`, which are asked before the registries that they mirror.
    """

    image: str
    pull: str = ""
    credentials: tuple[str, ...] = ()
    digest: Optional[str] = None
    shared_memory_bytes: Optional[int] = None
    images: str = ""
    driver: str = ""
    shows: Optional[tuple[str, ...]] = None
    mirrors: Mapping[str, str] = NOTHING


class LogPattern(NamedTuple):
    """A pattern searched for in the logs of a failed attempt, and the action after a match."""

    pattern: str
    label: str
    action: Optional[str] = None


class NodeLaunch(NamedTuple):
    """The part of one node in an attempt; `rank` is its index among the attempt's nodes.

    The runner writes `files` (relative path -> text) before anything runs, readable by the run alone, and
    makes `mounts` in order. With `own_disk` no other node sees the run's files. The engine adds `artifacts`,
    the directories by kind, and `artifact_state`, the file that names the attempt to which they belong.
    """

    node: str
    rank: int
    workers: tuple[WorkerLaunch, ...]
    address: str = ""
    files: Mapping[str, str] = NOTHING
    mounts: tuple[Mount, ...] = ()
    artifacts: Mapping[str, str] = NOTHING
    artifact_state: Optional[str] = None
    own_disk: bool = False


class RunsAs(NamedTuple):
    """The system user of the attempt's processes. The engine adds the lowest uid that it allows."""

    name: str
    least_uid: int = LEAST_UID


class BatchLaunch(NamedTuple):
    """The request to a cluster's own queue for an attempt, beside its nodes. Read by the engine alone.

    `slot_types` are the types of slots that roles request, by role; `directives` have the form of
    `RunSpec.slurm`. With `starts_steps` the worker is a job's own script, which starts the other processes by
    the commands of that system. The job may have only the nodes `hostnames` (none: any), and none of
    `excluded`. `turns` counts the remaining turns of a cycle run, including this one: they share a job (0:
    each attempt has one).
    """

    pool: str = ""
    slot_types: Mapping[str, str] = NOTHING
    directives: Mapping[str, Optional[str]] = NOTHING
    starts_steps: bool = False
    hostnames: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    turns: int = 0


NO_BATCH = BatchLaunch()


class NodeSettings(NamedTuple):
    """The settings for all attempts of an engine, on each of its nodes.

    `sdk` is a directory that makes `import tarmac` work. `notify` is a FIFO that takes "ATTEMPT_ID\\n" after
    each event; None: the engine polls. Every `look_s` the runner polls for requests: waking it may be
    impossible (another machine, a disk without FIFOs). `shared_directory`: all nodes share one attempt
    directory. `lease_s`: how long the workers continue while the server does not ask about the attempt on
    their node, if the node can be cut off (None: without limit). `contact`: the directory in which the
    cluster renews a file for each node that it reaches, so that the server may be down for longer.
    `log_limit_bytes`: the maximum size of the logs of an attempt's workers on a node. `spare`: a directory on
    the disk of the artifact directories, where empty ones wait for another attempt (None: none wait).
    """

    sdk: Optional[str] = None
    notify: Optional[str] = None
    look_s: float = protocol.LOOK_S
    shared_directory: bool = True
    lease_s: Optional[float] = None
    contact: Optional[str] = None
    log_limit_bytes: Optional[int] = None
    spare: Optional[str] = None


class Launch(NamedTuple):
    """An attempt: the settings of all its nodes, and the part of each.

    `code_digest` names the code snapshot to copy into each node's working directory (None: an empty one),
    `code` is its directory. `setup` steps run once per node, in order, before the workers, in the same
    directory, with `setup_env`. `own_packages`: commands install with pip into the attempt's own environment,
    also without setup steps; `environments` is the directory of shared environments. `own_directories`: each
    worker starts in a directory of its own (without effect if there are setup steps or hooks). `git`: the
    access of the step `checkout`. The `hooks` (before_login, before, after, after_login) run once, on the
    node of rank 0, around the workers of all nodes, with `setup_env`. Steps, hooks and workers run in
    `container` (None: on the node itself). No launch contains the values of `secrets`. The runner searches
    the logs of a failed attempt for `log_policies`. `rehearsal`: a bind with a missing source is no failure.
    `runs_as` None: as the user of the runner.

    `time_limit_s` is the rest of the run's limit, counted from the claim (setup takes part of it), after
    `ran_s` of earlier attempts. `allotted_s` tells the workers when the attempt will be asked to leave,
    counted from their start; with `allots_setup` at the latest from START_ALLOWANCE_S after the claim.
    `patience_s`: the part of the grace after a worker failed (see `node.hooks.watch`).

    The engine adds `settings`, `code`, `environments`, `git`, and the fields that its parts list; it uses
    `batch` for the request to a cluster's own queue and omits it from attempt.json.
    """

    attempt_id: str
    number: int
    token: str
    run_id: str = ""
    run_name: str = ""
    code_digest: Optional[str] = None
    code: Optional[str] = None
    setup: tuple[Step, ...] = ()
    setup_env: Mapping[str, str] = NOTHING
    hooks: Mapping[str, tuple[Argv, ...]] = {}
    own_packages: bool = False
    own_directories: bool = False
    environments: Optional[str] = None
    git: GitRules = GitRules()
    time_limit_s: Optional[float] = None
    ran_s: float = 0.0
    allotted_s: Optional[float] = None
    allots_setup: bool = False
    pause_signal: Optional[str] = None
    grace_s: float = 0.0
    patience_s: float = protocol.PATIENCE_S
    container: Optional[ContainerLaunch] = None
    sync: Optional[ArtifactSync] = None
    secrets: tuple[SecretLaunch, ...] = ()
    log_policies: tuple[LogPattern, ...] = ()
    rehearsal: bool = False
    runs_as: Optional[RunsAs] = None
    batch: BatchLaunch = NO_BATCH
    settings: NodeSettings = NodeSettings()
    nodes: tuple[NodeLaunch, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, by rank."""
        return tuple(part.node for part in self.nodes)

    def part(self, node: str) -> NodeLaunch:
        """The part of a node; raises Unreadable if there is none."""
        for part in self.nodes:
            if part.node == node:
                return part
        raise Unreadable(f"there is no node {node!r} in attempt {self.attempt_id}")


_read = records.reader(Launch)


def to_json(document: Launch) -> dict[str, Any]:
    """The content of attempt.json."""
    return {"protocol": protocol.PROTOCOL, **records.to_json(document)}


def read_document(path: str, late: Mapping[str, str] = NOTHING) -> Launch:
    """The attempt described at `path`, with `late` texts replaced by their values; raises Unreadable."""
    try:
        text = untrusted.read_bytes(path, untrusted.DOCUMENT_BYTES)
        for placeholder, value in late.items():
            text = text.replace(placeholder.encode(), value.encode())
        fields = untrusted.parse_object(text)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error
    if fields.get("protocol") != protocol.PROTOCOL:
        raise Unreadable(f"{path} is not of protocol {protocol.PROTOCOL}, the one this runner speaks")
    try:
        document: Launch = _read(fields)
    except records.Malformed as problem:
        raise Unreadable(f"{path}: {problem}") from None
    for name in document.node_names:
        if not NODE_NAME.fullmatch(name):
            raise Unreadable(f"{path}: {name!r:.100} is no name of a node")
    return document


END_MARGIN_S = 60.0
"""The last part of a job is reserved for its end (at most a tenth of the remaining time)."""

_ADDRESS = re.compile(r"[A-Za-z0-9._:%-]{1,253}")
_DEVICE = re.compile(r"[A-Za-z0-9:/_-]{1,100}")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class GrantedNode(NamedTuple):
    """The rank of this node; name and address of every node by rank; the attempt's accelerators here.

    `devices` None: the starter of the runner did not name them; slots are then numbered from 0. `ends_at` is
    the time at which the cluster ends the job (None: unknown).
    """

    rank: int
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    devices: Optional[tuple[str, ...]] = None
    ends_at: Optional[float] = None

    @property
    def name(self) -> str:
        """The name of this node."""
        return self.names[self.rank]

    def leave_s(self, grace_s: float, now: float) -> Optional[float]:
        """Seconds until the workers must be asked to leave, so that their grace fits before the job ends.

        At least half of the job's remaining time: otherwise the run would make no progress.
        """
        if self.ends_at is None:
            return None
        left_s = max(0.0, self.ends_at - now)
        return max(left_s - min(END_MARGIN_S, left_s / 10) - grace_s, left_s / 2)

    def with_devices(self, part: NodeLaunch) -> NodeLaunch:
        """The node's part with the devices of each worker; raises OSError if there are too few."""
        if self.devices is None:
            return part
        workers = []
        for worker in part.workers:
            if max(worker.slots, default=-1) >= len(self.devices):
                found = f"{self.name} was given {len(self.devices)} devices"
                raise OSError(f"{found}, and {worker.name} needs slot {worker.slots[-1]}")
            visible = ",".join(self.devices[slot] for slot in worker.slots)
            workers.append(worker._replace(env={**worker.env, _VISIBLE: visible}))
        return part._replace(workers=tuple(workers))


def read_granted(rank: str, nodes: str, ends_at: str, devices: Optional[str] = None) -> GrantedNode:
    """Parse the arguments of a command line; raises ValueError for arguments that name no nodes.

    `ends_at` in whole seconds since the epoch; empty if unknown.
    """
    pairs = [item.partition("=") for item in nodes.split(",")]
    names = tuple(name for name, _, _ in pairs)
    addresses = tuple(address or name for name, _, address in pairs)
    listed = None if devices is None else tuple(filter(None, devices.split(",")))
    if not all(map(NODE_NAME.fullmatch, names)) or not all(map(_ADDRESS.fullmatch, addresses)):
        raise ValueError(f"not names of nodes: {nodes!r:.200}")
    if not all(map(_DEVICE.fullmatch, listed or ())):
        raise ValueError(f"not devices: {devices!r:.200}")
    if not rank.isdigit() or int(rank) >= len(names):
        raise ValueError(f"{rank!r:.20} is the rank of none of {len(names)} nodes")
    if not re.fullmatch(r"[0-9]{0,12}", ends_at):
        raise ValueError(f"no time of an end: {ends_at!r:.40}")
    return GrantedNode(int(rank), names, addresses, listed, float(ends_at) if ends_at else None)

"""attempt.json as records: made by engines, read by the runner, its sidecar and engines.

Whoever reads trusts no more of it than is checked here: that every field is there and of its type, and that
the names of nodes can be names of directories.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Optional

from tarmac.node.attempt import protocol, records
from tarmac.node.attempt.steps import Step
from tarmac.node.files import untrusted
from tarmac.node.files.gitrules import GitRules

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A node's part of an attempt lies in a directory of its name."""

NOTHING: Mapping[str, str] = {}

Argv = tuple[str, ...]


class Unreadable(Exception):
    """attempt.json is missing, broken, of another protocol, or says nothing of this node."""


class WorkerPart(NamedTuple):
    """One worker as it is to be started. `cpus` and `memory_bytes` 0: not limited.

    `rank` is its place among the processes of its role that train together, where tarmac starts those.

    `env` is whole but for what only the node knows. The runner adds, where absent, HOME, USER, LOGNAME,
    SHELL, LANG and TMPDIR; and, always, TARMAC_ATTEMPT_TOKEN, the paths of the artifacts
    (`ARTIFACT_VARIABLES`), what the SDK needs, and `sdk` at the end of PYTHONPATH. Nothing else of the
    runner's own environment gets there.
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
        """ROLE.REPLICA.WORKER: the name of its log."""
        return f"{self.role}.{self.replica}.{self.worker}"


class MountPart(NamedTuple):
    """A literal path to make true in this attempt's private view of the disk.

    The source "." is work/, another relative one lies below files/; a relative target is below work/ (made
    true once the code is there). The variables name the target where it holds, else the source.
    """

    source: str
    target: str
    read_only: bool = False
    variables: tuple[str, ...] = ()


class SecretPart(NamedTuple):
    """A secret that the attempt is given, without its value.

    In the variables "{value}", "{path}" and "{directory}" stand for the value, its file (`file`, below a
    directory in memory that is removed at the end) and what that lies in; `target` is a literal path where
    the file is to be seen, as in a mount.
    """

    name: str
    variables: Mapping[str, str] = NOTHING
    file: Optional[str] = None
    target: Optional[str] = None


class SyncPart(NamedTuple):
    """How artifacts are kept: by which command (the sidecar), in which store, how often.

    `patience_s`: how long to try at the start and the end of the attempt while the store is down; `inputs`:
    the versions that are placed into the directories at first.
    """

    command: Argv
    store: str
    every_s: Mapping[str, float]
    patience_s: float
    inputs: tuple[str, ...] = ()


class ContainerPart(NamedTuple):
    """The image that the attempt runs in.

    `images` is the directory of the node's images, `pull` "always" where the registry is to be asked for a
    tag that is known here, `credentials` the secrets that may have those for the registry. `digest`: no other
    image will do. `shared_memory_bytes` None: as much as the node gives. `driver`: the program that makes it,
    see `container.drivers`; "" for whichever works. `shows`: the directories of the node below which all must
    lie that a run's own binds show. `mirrors` are asked before the registries that they are for.
    """

    image: str
    images: str
    pull: str = ""
    credentials: tuple[str, ...] = ()
    digest: Optional[str] = None
    shared_memory_bytes: Optional[int] = None
    driver: str = ""
    shows: Optional[tuple[str, ...]] = None
    mirrors: Mapping[str, str] = NOTHING


class LogPolicyPart(NamedTuple):
    """A pattern searched for in the logs of an attempt that failed, and what is done where it is found."""

    pattern: str
    label: str
    action: Optional[str] = None


class NodePart(NamedTuple):
    """What one node does of an attempt.

    `artifacts` are its directories by kind, `artifact_state` the file beside them that says which attempt
    they hold; with `own_disk` no other node sees them. `files` are written before anything runs.
    """

    node: str
    rank: int
    workers: tuple[WorkerPart, ...]
    address: str = ""
    files: Mapping[str, str] = NOTHING
    mounts: tuple[MountPart, ...] = ()
    artifacts: Mapping[str, str] = NOTHING
    artifact_state: Optional[str] = None
    own_disk: bool = False


class AttemptDocument(NamedTuple):
    """An attempt: what holds for all of its nodes, and the part of each.

    `notify` is a FIFO that takes "ATTEMPT_ID\\n" after each event. Every `look_s` the runner looks by itself
    at what it is asked: waking it may be impossible (another machine, a disk without FIFOs). `code` is a
    snapshot to fill work/ with; `sdk` a directory that makes `import tarmac` work; `environments` the
    directory of those that runs share. `own_directories`: workers do not share a working directory (without
    effect where there are setup steps or hooks). `own_packages`: commands install with pip into the attempt's
    own environment, also without setup steps. `git`: what the step `checkout` may use. The `hooks`
    (before_login, before, after, after_login) run once, on the node of rank 0, around the workers of all
    nodes, with `setup_env`.

    `time_limit_s` counts from the claim (setup takes part of it); `ran_s` was spent of the run's limit by
    earlier attempts. `allotted_s`: when the attempt is to be asked to leave, for the workers to know, from
    their start, but at the latest from START_ALLOWANCE_S after the claim with `allots_setup`.
    `lease_s`: how long the workers go on while the server does not ask about the attempt on their node, where
    that can be cut off; the file of the node in `contact` counts too. `log_limit_bytes`: what the logs of
    its workers may hold on a node.
    `patience_s`: of the grace, once a worker has failed (see `node.hooks.patience`).
    `shared_directory`: all nodes see one and the same attempt directory. `container`: steps, hooks and
    workers run in it (None: beside the runner). `rehearsal`: a bind without its source is no failure.
    """

    attempt_id: str
    number: int
    token: str
    run_id: str = ""
    run_name: str = ""
    notify: Optional[str] = None
    look_s: float = protocol.LOOK_S
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
    lease_s: Optional[float] = None
    contact: Optional[str] = None
    log_limit_bytes: Optional[int] = None
    pause_signal: Optional[str] = None
    grace_s: float = 0.0
    patience_s: float = protocol.PATIENCE_S
    shared_directory: bool = True
    container: Optional[ContainerPart] = None
    sdk: Optional[str] = None
    sync: Optional[SyncPart] = None
    secrets: tuple[SecretPart, ...] = ()
    log_policies: tuple[LogPolicyPart, ...] = ()
    rehearsal: bool = False
    nodes: tuple[NodePart, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """Its nodes, by rank."""
        return tuple(part.node for part in self.nodes)

    def part(self, node: str) -> NodePart:
        """What a node does of it; raises Unreadable where it says nothing of that node."""
        for part in self.nodes:
            if part.node == node:
                return part
        raise Unreadable(f"there is no node {node!r} in attempt {self.attempt_id}")


_read = records.reader(AttemptDocument)


def unreadable(node: str) -> AttemptDocument:
    """Stands for one that says nothing: there is only a failure to report."""
    return AttemptDocument(attempt_id="", number=0, token="", nodes=(NodePart(node, 0, ()),))


def to_json(document: AttemptDocument) -> dict[str, Any]:
    """What attempt.json holds."""
    return {"protocol": protocol.PROTOCOL, **records.to_json(document)}


def read_document(path: str, late: Mapping[str, str] = NOTHING) -> AttemptDocument:
    """The attempt described at `path`, with what takes the place of `late` texts in it; raises Unreadable."""
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
        document: AttemptDocument = _read(fields)
    except records.Malformed as problem:
        raise Unreadable(f"{path}: {problem}") from None
    for name in document.node_names:
        if not NODE_NAME.fullmatch(name):
            raise Unreadable(f"{path}: {name!r:.100} is no name of a node")
    return document

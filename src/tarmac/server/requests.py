"""The bodies of requests. Checked by FastAPI before a route gets them; used by the routes."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from tarmac.control.sessions import WorkerChoice
from tarmac.model.secret import SecretForm

LARGEST = 10**18
"""Maximum number in a request: stores and file offsets cannot hold larger ones."""

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]

LONGEST_KEY = 255
DEEPEST = 64
"""Maximum depth of values: the server must read stored values again, and real settings are not deeper."""


def whole(text: str) -> int | None:
    """The whole number in a header; None if there is none, or if it exceeds `LARGEST`."""
    return int(text) if text.isdecimal() and len(text) < len(str(LARGEST)) else None


def _shallow(value: Any) -> Any:
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    return value


class _Body(BaseModel, extra="forbid"):
    """A body with only named fields."""


class ExtrasBody(_Body, title="Extras"):
    """Files beside a run file that its dialect reads, and the parameters of an MLflow project."""

    files: dict[str, str] = Field(default_factory=dict, description="text of each file, by name")
    entry_point: str | None = None
    parameters: dict[str, str] = Field(default_factory=dict)
    changes: dict[str, str] = Field(
        default_factory=dict, description="text of a YAML value by path of the native run file, as a.b.0"
    )


class SubmissionBody(_Body, title="Submission"):
    """A run file (or a run to clone), with the overrides of the command line."""

    source: str | None = Field(None, description="text of the run file")
    filename: str = Field("run.yaml", description="its name, for messages and the choice of a dialect")
    directory: str = Field("/", description="absolute path that relative code paths start from")
    dialect: str | None = Field(None, description="dialect of the text; else its content shows it")
    extras: ExtrasBody = Field(default_factory=ExtrasBody, description="what goes along with it")
    code_digest: str | None = Field(None, description="snapshot of the code directory, sent before")
    overrides: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(
        default_factory=dict, description="values in place of the file's own"
    )
    clone: str | None = Field(None, description="run reference, instead of source")
    resume: bool = Field(
        False, description="the clone begins from the last checkpoint of that run, with its code"
    )
    sweep: dict[str, str] = Field(
        default_factory=dict, description="values of parameters, as `1e-3,1e-4` or `0..9`: a grid of all"
    )
    submitter: dict[str, str] = Field(
        default_factory=dict, description="PATH, VIRTUAL_ENV and CONDA_PREFIX of the submitter's shell"
    )
    idempotency_key: str | None = Field(
        None, max_length=LONGEST_KEY, description="the same key twice is the same run"
    )


class ExperimentBody(SubmissionBody, title="NewExperiment"):
    """A run file with a search over its parameters; or `fork`, an experiment to copy."""

    fork: str | None = Field(None, description="experiment reference, instead of source")


class BatchBody(_Body, title="Batch"):
    """Submissions that belong together: all are accepted, or none."""

    runs: list[SubmissionBody]


class CheckBody(_Body, title="Check"):
    """A run file to check."""

    source: str
    filename: str = "run.yaml"
    directory: str = "/"
    dialect: str | None = None
    extras: ExtrasBody = Field(default_factory=ExtrasBody)


class ChangeBody(_Body, title="QueueChange"):
    """One change of a run's queue position; exactly one field beside `run`."""

    run: str = Field(description="run reference")
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000)
    weight: float | None = Field(None, gt=0, le=100_000)
    pool: str | None = None
    ahead_of: str | None = Field(None, description="run reference")
    behind_of: str | None = Field(None, description="run reference")
    top: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        changes = (self.priority, self.weight, self.pool, self.ahead_of, self.behind_of, self.top or None)
        if sum(value is not None for value in changes) != 1:
            raise ValueError("exactly one of priority, weight, pool, ahead_of, behind_of and top is needed")
        return self


class ChangesBody(_Body, title="QueueChanges"):
    """Changes that belong together: checked one after another, then all applied, or none."""

    changes: list[ChangeBody] = Field(min_length=1, max_length=10_000)


class NoteBody(_Body, title="NewNote"):
    """A note to a run."""

    text: str


class LabelsBody(_Body, title="LabelChanges"):
    """Labels to set, by name; null removes one."""

    labels: dict[str, str | None] = Field(max_length=1_000)


class ClusterBody(_Body, title="ClusterDescription"):
    """The description of a cluster."""

    source: str = Field(description="text of the cluster file")
    filename: str = Field("cluster.yaml", description="its name, for messages")
    replace: bool = Field(False, description="in place of the cluster of the same name")


class MachinesBody(_Body, title="Machines"):
    """All machines of a cluster to start."""

    source: str = Field(description="text of the hosts file")
    filename: str = Field("hosts.txt", description="its name, for messages")
    install: bool = Field(False, description="install Ray where it is missing")


class DownBody(_Body, title="ClusterEnd"):
    """Options for the end of a started cluster."""

    force: bool = Field(False, description="stop its runs, and give up machines that are not reached")
    purge: bool = Field(False, description="remove the directories of runs too")


class NodesBody(_Body, title="NodeChoice"):
    """A selection of nodes: by name, or all of a cluster, pool and shard."""

    nodes: list[str] = Field(default_factory=list)
    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None


class DrainBody(NodesBody, title="Drain"):
    """The nodes to drain, and the reason."""

    reason: str = Field("", max_length=500, description="shown beside the nodes, by `nodes` and `why`")


class ContentsBody(_Body, title="Contents"):
    """The SHA-256 hashes of contents in hexadecimal digits."""

    contents: list[str]


class DatasetBody(_Body, title="NewDataset"):
    """A dataset to add."""

    id: str
    source: str = Field(description="an absolute path on the server's machine, or a URL that fsspec knows")


class SecretBody(_Body, title="NewSecret", hide_input_in_errors=True):
    """A value to store."""

    value: str = Field(repr=False)
    form: SecretForm | None = Field(default=None, description="how runs that name it alone are given it")
    variable: str | None = None
    path: str | None = None


class TerminalBody(_Body, title="Terminal"):
    """The terminal of a command."""

    rows: int = Field(ge=1, le=10_000)
    columns: int = Field(ge=1, le=10_000)
    name: str = Field("", max_length=100, description="what TERM says")


class SessionBody(_Body, title="Session"):
    """The frame that opens a session: a command (none: the user's shell), or a port to connect to."""

    command: list[str] = Field(default_factory=list, max_length=10_000)
    stdin: bool = False
    terminal: TerminalBody | None = None
    port: int | None = Field(None, ge=1, le=65_535)
    role: str | None = None
    replica: Whole | None = None
    worker: Whole | None = None
    node: str | None = None

    @property
    def choice(self) -> WorkerChoice:
        """The worker of the session."""
        return WorkerChoice(role=self.role, replica=self.replica, worker=self.worker, node=self.node)

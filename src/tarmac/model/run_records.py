"""Records beside runs: what their code stores by name, numbers, notes, deliveries of messages, and datasets.

Code stores checkpoints, metadata and progress, and commands know runs by number, through the gateway of a
system; the server keeps notes and datasets.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

MOST_CHARACTERS = 4_000


class RunRecordKind(StrEnum):
    """CHECKPOINT: by its UUID. METADATA: of the run. SEARCH: the length that a trial has completed."""

    CHECKPOINT = "checkpoint"
    METADATA = "metadata"
    SEARCH = "search"


class RunRecord(Struct, frozen=True, kw_only=True):
    """A record: `name` is unique within a run and kind, `attempt` wrote it last, `body` is JSON."""

    run_id: str
    kind: RunRecordKind
    name: str
    attempt: int
    at: float
    body: Mapping[str, Any] = field(default_factory=dict)


class RunRecords(Protocol):
    """The durable store of these records.

    Errors are those of `ports.Store`; a removed run loses its records.
    """

    def put(self, record: RunRecord) -> bool:
        """Store a record, in place of one of that run, kind and name; False if there is no such run."""

    def of(self, run_id: str, kind: RunRecordKind) -> list[RunRecord]:
        """The records of a run, oldest first; of the same time by name."""

    def named(self, kind: RunRecordKind, name: str) -> list[RunRecord]:
        """The records of a name, of any run, in the same order."""


class NumberKind(StrEnum):
    """The numbered things, each kind from 1.

    EXPERIMENT: by experiment, or by a run of its own. TRIAL: by run.
    """

    EXPERIMENT = "experiment"
    TRIAL = "trial"


class Numbers(Protocol):
    """The durable record of numbers. Errors are those of `ports.Store`."""

    def numbers(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of these ids; the next free ones, in this order, go to those without.

        A number is permanent: except by `pass_on` it never gets another owner, even after its own was
        removed.
        """

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of those ids that have one."""

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        """Move the number of one id to another without a number, which continues what the first one was."""

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        """The id with this number; None if there is none."""


class AnnotationKind(StrEnum):
    """The kind of an annotation."""

    NOTE = "note"
    LABEL = "label"


class Annotation(Struct, frozen=True, kw_only=True):
    """A note, or a change of labels as `K=V` and `K-`, with its author and time."""

    at: float
    actor: str
    kind: AnnotationKind
    text: str


LabelChange = tuple[Mapping[str, str | None], Annotation]
"""New labels of a run, with None for those that are removed; and the record of that."""


class Annotations(Protocol):
    """The durable record of annotations.

    Errors are those of `ports.Store`; a removed run loses its annotations.
    """

    def of(self, run_id: str) -> list[Annotation]:
        """The annotations of a run, oldest first."""

    def add(self, run_id: str, annotation: Annotation) -> bool:
        """Store a note; False if there is no such run. Raises InvalidInput for text that cannot be stored."""

    def change_labels(self, changed: Mapping[str, LabelChange]) -> frozenset[str]:
        """Change labels of runs, by id, in one transaction with the annotations; the ids of those that exist.

        Raises InvalidInput for text that cannot be stored.
        """


def changed_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**labels, **changes}.items() if value is not None}


class Occasion(StrEnum):
    """The reason of a message. `waiting`: in a queue for long; `idle`: it uses none of its slots.

    `credits`: most of the credits of its user or project are used. `burst`: its rented machines need a
    person's approval, or end soon.
    """

    STARTED = "started"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    IDLE = "idle"
    CREDITS = "credits"
    BURST = "burst"


class Delivery(Struct, frozen=True, kw_only=True):
    """How far the delivery of a message has come; `api.Notification` shows it.

    `due_at` is when it is to be sent (None: no longer); `sent_at` is when the receiver accepted it, `error`
    why the last of its `tries` failed.
    """

    occasion: Occasion
    at: float
    tries: int = 0
    due_at: float | None = None
    sent_at: float | None = None
    error: str | None = None


class DatasetState(StrEnum):
    """The state of a dataset: runs can read an `available` one only. A `failed` one can be added again."""

    CREATED = "created"
    CACHING = "caching"
    AVAILABLE = "available"
    FAILED = "failed"


class Dataset(Struct, frozen=True, kw_only=True):
    """`source` is a directory (or file) on the server's machine, or a URL; `path` is the place of its
    content.

    `done_bytes` of `total_bytes` have been fetched (None: unknown). `message` has the reason of a failure.
    `server` names the server whose machine has it, by that server's own cluster.
    """

    id: str
    source: str
    user: str
    created_at: float
    state: DatasetState = DatasetState.CREATED
    path: str | None = None
    done_bytes: int = 0
    total_bytes: int | None = None
    message: str | None = None
    server: str

"""What people add to a run after it was submitted: notes, and changes of its labels.

Kept apart from the history of the run: it may have ended, and nothing happens to it by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MOST_CHARACTERS = 4_000
"""The longest note."""


class AnnotationKind(StrEnum):
    """What was added."""

    NOTE = "note"
    LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note, or a change of labels as `K=V` and `K-`; who made it and when."""

    at: float
    actor: str
    kind: AnnotationKind
    text: str


class Annotations(Protocol):
    """The durable record of them. Errors are those of `ports.Store`; they go when their run is removed."""

    def of(self, run_id: str) -> list[Annotation]:
        """Those of a run, oldest first."""
        ...

    def add(self, run_id: str, annotation: Annotation) -> bool:
        """Keep a note; False where there is no such run. Raises InvalidInput for text that cannot be kept."""
        ...

    def change_labels(self, run_id: str, changes: Mapping[str, str | None], annotation: Annotation) -> bool:
        """Set labels, and remove those that become None, in one transaction with the annotation, likewise."""
        ...


def changed_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The labels after a change."""
    return {key: value for key, value in {**labels, **changes}.items() if value is not None}

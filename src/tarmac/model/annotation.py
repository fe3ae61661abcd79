"""Notes and label changes that people add to a run after its submission. Used by `server` and `store`.

They are separate from the history of the run: it may have ended, and they do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

MOST_CHARACTERS = 4_000
"""The longest note."""


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


class Annotations(Protocol):
    """The durable record of annotations.

    Errors are those of `ports.Store`; a removed run loses its annotations.
    """

    def of(self, run_id: str) -> list[Annotation]:
        """The annotations of a run, oldest first."""
        ...

    def add(self, run_id: str, annotation: Annotation) -> bool:
        """Store a note; False if there is no such run. Raises InvalidInput for text that cannot be stored."""
        ...

    def change_labels(self, run_id: str, changes: Mapping[str, str | None], annotation: Annotation) -> bool:
        """Set labels and remove those that are None, in one transaction with the annotation.

        Otherwise as `add`.
        """
        ...


def changed_labels(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**labels, **changes}.items() if value is not None}

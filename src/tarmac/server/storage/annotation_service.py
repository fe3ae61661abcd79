"""Notes and labels of runs for the routes: checks permission and content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tarmac.control.permissions import Action, check
from tarmac.control.service import ControlPlane
from tarmac.dialects.overrides import override
from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput, NotFound, TarmacError, suggestion
from tarmac.model.ports import Clock
from tarmac.model.run import Run
from tarmac.model.run_records import MOST_CHARACTERS, Annotation, AnnotationKind, Annotations, LabelChange

AGAIN_S = 60.0
"""An identical note by the same user within this time is a repeated request."""


@dataclass(frozen=True, slots=True)
class AnnotationService:
    """Commands and queries about notes and labels. From any thread; raises NotFound for an unknown run."""

    plane: ControlPlane
    records: Annotations
    clock: Clock

    def of(self, actor: Actor, reference: str) -> list[Annotation]:
        """The notes and label changes of a run, oldest first."""
        return self.records.of(self.plane.find(actor, reference).id)

    def note(self, actor: Actor, reference: str, text: str) -> list[Annotation]:
        """Add a note; returns all annotations of the run. Raises InvalidInput for an empty or long one."""
        run = self._own(actor, reference)
        text = text.strip()
        if not text or len(text) > MOST_CHARACTERS:
            raise InvalidInput(f"a note has 1 to {MOST_CHARACTERS:,} characters, not {len(text):,}")
        added = self._annotation(actor, AnnotationKind.NOTE, text)
        before = self.records.of(run.id)
        repeated = any(self._sent_before(each, added) for each in before)
        if not repeated and not self.records.add(run.id, added):
            raise _removed(run)
        return self.records.of(run.id)

    def label(self, actor: Actor, reference: str, changes: Mapping[str, str | None]) -> Run:
        """Set labels, and remove those set to None; returns the changed run.

        Raises InvalidInput for an invalid label, NotFound for the removal of a missing one.
        """
        run = self._own(actor, reference)
        labels = run.spec.labels
        for key, value in changes.items():
            if value is None and key not in labels:
                hint = suggestion(key, labels, f"its labels: {', '.join(sorted(labels)) or 'none'}")
                raise NotFound(f"{run.name} ({run.id}) has no label {key!r}", hint=hint)
        labelled = self.label_each(actor, [run.id], changes)[0]
        if isinstance(labelled, TarmacError):
            raise labelled
        return labelled

    def label_each(
        self, actor: Actor, references: Sequence[str], changes: Mapping[str, str | None]
    ) -> list[Run | TarmacError]:
        """Label many runs in one transaction: each run afterwards, or its refusal.

        Labels to remove may be missing. Raises InvalidInput for text that cannot be stored.
        """
        labels = {key: value for key, value in changes.items() if value is not None}
        found: list[Run | TarmacError] = []
        changed: dict[str, LabelChange] = {}
        for reference in references:
            try:
                run = self._own(actor, reference)
                override(run.spec, {"labels": labels})
            except TarmacError as error:
                found.append(error)
                continue
            found.append(run)
            news = {key: value for key, value in changes.items() if run.spec.labels.get(key) != value}
            if news:
                text = " ".join(
                    f"{key}-" if value is None else f"{key}={value}" for key, value in news.items()
                )
                changed[run.id] = news, self._annotation(actor, AnnotationKind.LABEL, text)
        self.records.change_labels(changed)
        runs = self.plane.control.store.load_runs([run.id for run in found if isinstance(run, Run)])
        return [runs.get(each.id, _removed(each)) if isinstance(each, Run) else each for each in found]

    def _own(self, actor: Actor, reference: str) -> Run:
        run = self.plane.find(actor, reference)
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project)
        return run

    def _annotation(self, actor: Actor, kind: AnnotationKind, text: str) -> Annotation:
        return Annotation(at=self.clock.now(), actor=actor.user, kind=kind, text=text)

    def _sent_before(self, one: Annotation, other: Annotation) -> bool:
        same = (one.actor, one.kind, one.text) == (other.actor, other.kind, other.text)
        return same and other.at - one.at < AGAIN_S


def _removed(run: Run) -> NotFound:
    return NotFound(f"{run.name} ({run.id}) was removed meanwhile")

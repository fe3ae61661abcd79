"""The container images of the nodes, for the routes: lists and removes them, by age and beyond a limit.

The engines store them on their nodes. The service calls each engine in its own thread, with a time limit: an
engine that hangs does not delay the others, and the answer reports it as unresponsive.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from tarmac.api import ImageList
from tarmac.control.permissions import Action, check
from tarmac.model.abilities import KeepsImages, KeptImage
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused, TarmacError
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.reference import local_path, parse

ANSWER_S = 20.0

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ImageService:
    """Commands and queries about images. `engines` are those with images, by cluster ("" is `own`).

    On each node it removes images unused for `unused_days`, and the longest unused ones while all together
    exceed `limit_bytes` (None: no limit). From any thread.
    """

    engines: Callable[[], Mapping[str, KeepsImages]]
    own: str
    limit_bytes: int | None = None
    unused_days: float | None = None
    answer_s: float = ANSWER_S

    def all(self, actor: Actor, *, cluster: str | None = None, node: str | None = None) -> ImageList:
        """The images of every node (optionally of a cluster, or of a node name)."""
        check(actor, Action.READ)
        engines = {key: engine for key, engine in self._named().items() if cluster in (None, key)}
        if cluster is not None and not engines:
            raise NotFound(f"there is no cluster {cluster} that keeps images")
        found, troubles = self._ask({key: engine.images for key, engine in engines.items()})
        images = [
            replace(image, cluster=key)
            for key in sorted(found)
            for image in sorted(found[key], key=lambda image: (image.node, image.name))
            if node in (None, image.node)
        ]
        return ImageList(images=images, troubles=troubles)

    def remove(
        self, actor: Actor, reference: str, *, cluster: str | None = None, node: str | None = None
    ) -> Sequence[KeptImage]:
        """Remove an image, by name or (the beginning of) its digest, from every node (of a cluster).

        Raises Refused if a run uses it, NotFound.
        """
        check(actor, Action.MANAGE)
        found = self.all(actor, cluster=cluster, node=node)
        chosen = [each for each in found.images if _is_called(each, reference)]
        if not chosen:
            more = "".join(f"; {key} gives no answer: {why}" for key, why in found.troubles.items())
            raise NotFound(f"no node has the image {reference}{more}", hint="tarmac images ls")
        _refuse_ambiguous(reference, chosen)
        used = [each for each in chosen if each.in_use]
        engines = self._named()
        gone = [
            each
            for each in chosen
            if not used and engines[each.cluster].remove_image(replace(each, cluster=""))
        ]
        if len(gone) < len(chosen):
            places = sorted({_place(each) for each in used or chosen if each not in gone})
            raise Refused(f"a run uses {chosen[0].name} on {', '.join(places)}", hint="stop it first")
        return gone

    def clear(self) -> None:
        """Start the removal in every engine, and wait for a limited time; the work continues afterwards."""
        bounds: dict[str, Any] = {"limit_bytes": self.limit_bytes, "unused_days": self.unused_days}
        work = {key: partial(engine.clear_images, **bounds) for key, engine in self._named().items()}
        counts, troubles = self._ask(work)
        if count := sum(counts.values()):
            log.info("removed %d images that no run has used lately", count)
        for key, why in troubles.items():
            log.warning("old images of cluster %s could not be removed: %s", key, why)

    def _named(self) -> Mapping[str, KeepsImages]:
        return {key or self.own: engine for key, engine in self.engines().items()}

    def _ask(
        self, questions: Mapping[str, Callable[[], Answer]]
    ) -> tuple[Mapping[str, Answer], Mapping[str, str]]:
        """The answers, and the reasons for missing ones."""
        answers: dict[str, Answer] = {}
        troubles: dict[str, str] = {}
        threads = [
            Thread(target=_answer, args=(key, question, answers, troubles), daemon=True)
            for key, question in questions.items()
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + self.answer_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        given, known = dict(answers), dict(troubles)
        late = {key: "no answer yet" for key in questions if key not in given and key not in known}
        return given, known | late


def _answer(
    key: str, question: Callable[[], Answer], answers: dict[str, Answer], troubles: dict[str, str]
) -> None:
    try:
        answers[key] = question()
    except (TarmacError, OSError) as error:
        troubles[key] = str(error)


def _is_called(image: KeptImage, reference: str) -> bool:
    beginning = (reference, f"sha256:{reference}") if len(reference.removeprefix("sha256:")) >= 6 else ()
    if reference in (image.name, image.digest) or image.digest.startswith(beginning):
        return True
    try:
        return (
            local_path(reference) is None
            and local_path(image.name) is None
            and str(parse(reference)) == str(parse(image.name))
        )
    except ImageProblem:
        return False


def _refuse_ambiguous(reference: str, chosen: Sequence[KeptImage]) -> None:
    """Raise InvalidInput if the beginning of a digest matches several images."""
    digests = {each.digest for each in chosen}
    named = any(each.name == reference for each in chosen)
    if len(digests) > 1 and not named and ":" not in reference.removeprefix("sha256:"):
        raise InvalidInput(f"{reference} is the beginning of several digests: {', '.join(sorted(digests))}")


def _place(each: KeptImage) -> str:
    return each.node or f"cluster {each.cluster}"

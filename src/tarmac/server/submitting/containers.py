"""Decides whether a run starts in its image or directly on the nodes. Called by `submissions`.

`facts_of` collects the facts, and tests the network if no other fact decides; `decide` is pure.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds.engines import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.spec import RunSpec
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.reference import DOCKER_HUB, absolute


class KnowsImages(Protocol):
    """This machine's knowledge of an image: see `local_images`."""

    def out_of_reach(self, image: str) -> bool:
        """Whether runs on this machine cannot get the image for lack of a network."""

    def problem(self, image: str) -> ImageProblem | None:
        """The reason why no run can start in the image on this machine."""


_NO_IMAGES = frozenset({"none", "null", "nil"})
"""Common notations for no image; otherwise a registry would be asked for an image of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """The facts of a decision. `rules` are those of the run's possible clusters, by name ("": all others).

    `declined`: the submission has `--no-container`. `sources` are the run's bind paths on nodes. `problem`:
    why the run cannot start in its image on this machine, if it must start there.
    """

    user: str
    image: str | None
    declined: bool
    sources: tuple[str, ...]
    rules: Mapping[str, ContainerRules]
    out_of_reach: bool = False
    problem: ImageProblem | None = None


def use_containers(
    spec: RunSpec,
    settings: ContainerSettings,
    *,
    user: str,
    images: KnowsImages | None = None,
    alone: bool = False,
) -> tuple[RunSpec, tuple[str, ...]]:
    """The spec with the decision applied, and warnings. Raises InvalidInput for a forbidden combination.

    `images` are those of this machine; `alone`: there is no other cluster.
    """
    if spec.site is not None:  # its own script starts its programs
        return spec, ()
    unused = decide(facts_of(spec, settings, user=user, images=images, alone=alone))
    if unused is None:
        return spec, ()
    return replace(spec, environment=replace(spec.environment, without_container=True)), (unused,)


def image_in_full(spec: RunSpec, directory: str) -> RunSpec:
    """The spec with the full path of an image that is a file: its path is relative to `directory`."""
    environment = spec.environment
    if environment.image is None or spec.site is not None:
        return spec
    return replace(spec, environment=replace(environment, image=absolute(environment.image, directory)))


def facts_of(
    spec: RunSpec, settings: ContainerSettings, *, user: str, images: KnowsImages | None, alone: bool
) -> ContainerFacts:
    """The facts of a submission."""
    environment, cluster = spec.environment, spec.target.cluster
    rules = {"": settings.of(LOCAL_CLUSTER)} if cluster is None and alone else settings.of_target(cluster)
    here = cluster in (None, LOCAL_CLUSTER) and all(each.use is ContainerUse.AUTO for each in rules.values())
    mirrored = any(DOCKER_HUB in each.mirrors for each in rules.values())
    image = None if environment.without_container else environment.image
    out_of_reach = bool(image and images and here and not mirrored and images.out_of_reach(image))
    surely_here = spec.rehearsal is not None or cluster == LOCAL_CLUSTER or (cluster is None and alone)
    used = any(each.use is not ContainerUse.NONE for each in rules.values())
    asks = used and surely_here and not out_of_reach and image is not None and not _is_none(image)
    return ContainerFacts(
        user=user,
        image=environment.image,
        declined=environment.without_container,
        sources=tuple(bind.source for bind in spec.binds),
        rules=rules,
        out_of_reach=out_of_reach,
        problem=images.problem(image) if asks and images is not None and image is not None else None,
    )


def decide(facts: ContainerFacts) -> str | None:
    """The reason why the run does not start in the image that it names; None if it does, or names none.

    Raises InvalidInput if a cluster's rules forbid the run.
    """
    if facts.image is None or facts.declined:
        _refuse_without(facts)
        return None
    if _is_none(facts.image):
        raise InvalidInput(
            f"the image {facts.image!r} is none",
            hint="take the line out, or run with --no-container on the node itself",
        )
    if all(rules.use is ContainerUse.NONE for rules in facts.rules.values()):
        return f"the image {facts.image} is not used: this server starts commands on the nodes themselves"
    if facts.out_of_reach:
        return f"the image {facts.image} is not used: it is not here, and this machine has no network"
    if facts.problem is not None:
        without = "run with --no-container to start it on the machine itself"
        raise InvalidInput(f"image: {facts.problem.message}", hint=facts.problem.hint or without)
    _refuse_hidden(facts)
    return None


def _is_none(image: str) -> bool:
    return image.lower() in _NO_IMAGES


def _refuse_without(facts: ContainerFacts) -> None:
    for cluster, rules in facts.rules.items():
        if rules.use is ContainerUse.REQUIRED and facts.user not in rules.without:
            where = f"cluster {cluster}" if cluster else "this server"
            without = "--no-container is for " + (", ".join(rules.without) or "nobody") + " there"
            raise InvalidInput(
                f"{where} starts runs in images alone, and this one "
                + ("names none" if facts.image is None else f"is to start without: {without}"),
                hint="name one: `environment: {image: ...}` in the run file, or --image"
                if facts.image is None
                else None,
            )


def _refuse_hidden(facts: ContainerFacts) -> None:
    for cluster, rules in facts.rules.items():
        for source in facts.sources:
            if rules.shows is not None and not any(_is_below(source, top) for top in rules.shows):
                where = f"on cluster {cluster}" if cluster else "here"
                raise InvalidInput(
                    f"binds: {source} may not be shown in a container {where}",
                    hint=f"what may be lies below {', '.join(rules.shows)}" if rules.shows else None,
                )


def _is_below(path: str, top: str) -> bool:
    path, top = posixpath.normpath(path), posixpath.normpath(top)
    return path == top or path.startswith(f"{top.rstrip('/')}/")

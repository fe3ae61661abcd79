"""Whether a run starts in its image or on the nodes themselves: one decision. Called by `submissions`.

`facts_of` gathers, and asks for the network where nothing else decides; `decide` is pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.containers import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.reference import DOCKER_HUB, absolute


class KnowsImages(Protocol):
    """What this machine knows of an image: see `local_images`."""

    def out_of_reach(self, image: str) -> bool:
        """Whether runs on this machine cannot have it, for want of a network."""
        ...

    def problem(self, image: str) -> ImageProblem | None:
        """Why no run can start in it on this machine."""
        ...


_NO_IMAGES = frozenset({"none", "null", "nil"})
"""What people write for no image; a registry would be asked for one of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """What decides. `rules` are those of the clusters that the run may go to, by name ("": all others).

    `declined`: the submission says `--no-container`. `sources` are the paths of nodes that it binds.
    `problem`: why it cannot start in its image on this machine, where it would have to.
    """

    user: str
    image: str | None
    declined: bool
    sources: tuple[str, ...]
    rules: Mapping[str, ContainerRules]
    out_of_reach: bool = False
    problem: ImageProblem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDecision:
    """In its image or not; `warning` says that an image which is named is not used, and why."""

    in_image: bool
    warning: str | None = None


def use_containers(
    spec: RunSpec,
    settings: ContainerSettings,
    *,
    user: str,
    images: KnowsImages | None = None,
    alone: bool = False,
) -> tuple[RunSpec, tuple[str, ...]]:
    """The spec as it is started, and what to warn of. Raises InvalidInput where it may not be.

    `images` are those of this machine, `alone`: there is no other cluster.
    """
    if spec.site is not None:  # its own script starts what it names
        return spec, ()
    decision = decide(facts_of(spec, settings, user=user, images=images, alone=alone))
    environment = spec.environment
    if environment.image is not None and not decision.in_image and not environment.without_container:
        spec = replace(spec, environment=replace(environment, without_container=True))
    return spec, (decision.warning,) if decision.warning else ()


def image_in_full(spec: RunSpec, directory: str) -> RunSpec:
    """The spec, whose image, where it is a file, has its path in full: the file's is from its directory."""
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


def decide(facts: ContainerFacts) -> ContainerDecision:
    """How a run is started. Raises InvalidInput where the rules of a cluster do not let it."""
    if facts.image is None or facts.declined:
        _refuse_without(facts)
        return ContainerDecision(in_image=False)
    if _is_none(facts.image):
        raise InvalidInput(
            f"the image {facts.image!r} is none",
            hint="take the line out, or run with --no-container on the node itself",
        )
    if all(rules.use is ContainerUse.NONE for rules in facts.rules.values()):
        reason = "this server starts commands on the nodes themselves"
        return ContainerDecision(in_image=False, warning=f"the image {facts.image} is not used: {reason}")
    if facts.out_of_reach:
        reason = "it is not here, and this machine has no network"
        return ContainerDecision(in_image=False, warning=f"the image {facts.image} is not used: {reason}")
    if facts.problem is not None:
        without = "run with --no-container to start it on the machine itself"
        raise InvalidInput(f"image: {facts.problem.message}", hint=facts.problem.hint or without)
    _refuse_hidden(facts)
    return ContainerDecision(in_image=True)


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

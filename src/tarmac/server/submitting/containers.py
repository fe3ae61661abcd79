"""Whether a run starts in its image or on the nodes themselves: one decision. Called by `submissions`.

`facts_of` gathers, and asks for the network where nothing else decides; `decide` is pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.containers import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec

OutOfReach = Callable[[str], bool]
"""Tells the images that runs on this machine cannot have, for want of a network."""

_NO_IMAGES = frozenset({"none", "null", "nil"})
"""What people write for no image; a registry would be asked for one of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """What decides. `rules` are those of the clusters that the run may go to, by name ("": all others).

    `declined`: the submission says `--no-container`. `sources` are the paths of nodes that it binds.
    """

    user: str
    image: str | None
    declined: bool
    sources: tuple[str, ...]
    rules: Mapping[str, ContainerRules]
    out_of_reach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDecision:
    """In its image or not; `warning` says that an image which is named is not used, and why."""

    in_image: bool
    warning: str | None = None


def use_containers(
    spec: RunSpec, settings: ContainerSettings, *, user: str, out_of_reach: OutOfReach | None = None
) -> tuple[RunSpec, tuple[str, ...]]:
    """The spec as it is started, and what to warn of. Raises InvalidInput where it may not be."""
    if spec.site is not None:  # its own script starts what it names
        return spec, ()
    decision = decide(facts_of(spec, settings, user=user, out_of_reach=out_of_reach))
    environment = spec.environment
    if environment.image is not None and not decision.in_image and not environment.without_container:
        spec = replace(spec, environment=replace(environment, without_container=True))
    return spec, (decision.warning,) if decision.warning else ()


def facts_of(
    spec: RunSpec, settings: ContainerSettings, *, user: str, out_of_reach: OutOfReach | None
) -> ContainerFacts:
    """The facts of a submission."""
    environment, cluster = spec.environment, spec.target.cluster
    rules = settings.of_target(cluster)
    here = cluster in (None, LOCAL_CLUSTER) and all(each.use is ContainerUse.AUTO for each in rules.values())
    asks = environment.image is not None and not environment.without_container and here
    return ContainerFacts(
        user=user,
        image=environment.image,
        declined=environment.without_container,
        sources=tuple(bind.source for bind in spec.binds),
        rules=rules,
        out_of_reach=asks and out_of_reach is not None and out_of_reach(environment.image or ""),
    )


def decide(facts: ContainerFacts) -> ContainerDecision:
    """How a run is started. Raises InvalidInput where the rules of a cluster do not let it."""
    if facts.image is None or facts.declined:
        _refuse_without(facts)
        return ContainerDecision(in_image=False)
    if facts.image.lower() in _NO_IMAGES:
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
    _refuse_hidden(facts)
    return ContainerDecision(in_image=True)


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

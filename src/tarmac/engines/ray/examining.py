"""Checks whether a Ray cluster has what runs need, for `tarmac clusters check`. Called by `RayEngine`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tarmac.engines.hosts.host import Host
from tarmac.engines.ray import health
from tarmac.engines.ray.membership import Membership
from tarmac.engines.ray.node import RayNode
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable
from tarmac.node.container.trial import Trial

LEAST_FREE_BYTES = 1 << 30
MOST_AHEAD_S = 2.0


TryContainers = Callable[[Host], Trial]
"""Tries whether runs can start in images on a node."""


def examined(
    settings: RaySettings, membership: Membership, nodes: RayNodes, *, try_containers: TryContainers
) -> Sequence[Finding]:
    """Findings for the head, then for every node: agent, directory, clock, disk, GPUs, images."""
    try:
        about = membership.about()
        members = {member.address: member for member in membership.members()}
    except Unavailable as error:
        hint = f" ({error.hint})" if error.hint else ""
        return [Finding(what="head", ok=False, text=f"{settings.address}: {error.message}{hint}")]
    found = [
        Finding(
            what="head",
            ok=True,
            text=f"{settings.address}: Ray {about.get('ray')}, Python {about.get('python')}",
        )
    ]
    nodes.look()
    for node in nodes.all():
        member = members.get(node.address)
        if member is not None:
            shared = member.shared and not member.reserved
            found.extend(_node(node, alive=member.alive, shared=shared))
            found.extend([_images(node, try_containers)] if node.up else [])
    if len(found) == 1:
        found.append(Finding(what="nodes", ok=False, text="Ray has no node"))
    return found


def _node(node: RayNode, *, alive: bool, shared: bool) -> Iterator[Finding]:
    if not node.up:
        words = node.trouble or "its agent does not answer"
        yield Finding(what=node.name, ok=False, text=words if alive else f"Ray has lost it; {words}")
        return
    try:
        sent_at = time.time()
        survey = node.call("survey")
        found_s = health.ahead_s(survey["at"], sent_at=sent_at, received_at=time.time())
        free_bytes, free_files = node.call("room", home=str(node.host.layout.home))
    except Unavailable as error:
        yield Finding(what=node.name, ok=False, text=error.message)
        return
    except OSError as error:
        yield Finding(what=node.name, ok=False, text=f"{error.filename}: {error.strerror}")
        return
    node.survey = survey
    yield Finding(what=node.name, ok=not shared, text=_words(node, survey, shared=shared))
    if abs(found_s) > MOST_AHEAD_S:
        yield Finding(
            what=node.name, ok=False, text=f"its clock is {found_s:+.0f} s from that of this machine"
        )
    for problem in survey["gpu_problems"]:
        yield Finding(what=node.name, ok=False, text=problem)
    if node.forward_problem:
        yield Finding(
            what=node.name, ok=False, text=f"runs there do not reach the gateway at {node.forward_problem}"
        )
    if free_bytes < LEAST_FREE_BYTES or (free_files is not None and free_files < 1000):
        text = f"{node.host.layout.home}: {free_bytes / 2**30:.1f} GiB and {free_files} files free"
        yield Finding(what=node.name, ok=False, text=text)


def _images(node: RayNode, try_containers: TryContainers) -> Finding:
    """The finding about images, always ok, because most runs need no image."""
    found = try_containers(node.host)
    text = found.text if found.works else f"no run starts in an image: {found.text}"
    return Finding(what=node.name, ok=True, text=text)


def _words(node: RayNode, survey: dict[str, Any], *, shared: bool) -> str:
    products = survey["products"]
    have = f"{len(products)} x {products[0]}" if products else "no GPU"
    text = (
        f"{node.address}: Python {survey['python']}, {survey['cpus']:.0f} processors, {have}, "
        f"{survey['memory_bytes'] / 2**30:.0f} GiB memory, {survey['free_bytes'] / 2**30:.0f} GiB disk free"
    )
    return f"{text}; others use it through Ray now" if shared else text

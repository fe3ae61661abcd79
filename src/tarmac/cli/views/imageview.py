"""Images on nodes as a table, the image of a run as a line. Called by `tarmac images` and `tarmac show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.amounts import age, duration, size
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.abilities import KeptImage

_COLUMNS = heads(
    "CLUSTER, NODE, IMAGE, DIGEST, SIZE, ON DISK, USED",
    right="SIZE, ON DISK, USED",
    flexible="IMAGE",
    optional="CLUSTER, ON DISK",
)
DIGEST_CHARACTERS = len("sha256:") + 12


def image_table(images: Sequence[KeptImage], terminal: Terminal, *, now: float) -> str:
    """A line for each image of a node, or of nodes that share their images."""
    rows = (
        (
            image.cluster,
            image.node,
            image.name,
            image.digest[:DIGEST_CHARACTERS],
            size(image.size_bytes),
            size(image.disk_bytes),
            "in use" if image.in_use else age(image.used_at, now),
        )
        for image in images
    )
    return render(_COLUMNS, rows, terminal)


def where(image: KeptImage) -> str:
    """The place of an image, in words."""
    return image.node or f"cluster {image.cluster}"


def image_text(environment: Mapping[str, Any], attempts: Sequence[api.Attempt]) -> str:
    """The image of a run, with its digest if known, and how the newest attempt obtained it."""
    name = environment.get("image")
    if name is None or environment.get("without_container"):
        return ""
    image = attempts[-1]["milestones"]["image"] if attempts else None
    if image is None:
        return str(name)
    known = f"{name}, {image['digest']}" if image["digest"] else str(name)
    if not image["source"]:
        return f"{known} (which its nodes had)" if image["digest"] else known
    come = size(image["fetched_bytes"])
    if not image["digest"]:
        return f"{known} ({come} of {size(image['total_bytes'])} pulled from {image['source']})"
    return f"{known} ({come} from {image['source']} in {duration(image['fetch_s'])})"

"""Lists a node's images, and removes those unused for long or over the limit.

Called by engines, through `host/operations`: arguments and results can be sent to another machine.
"""

from __future__ import annotations

import time
from typing import Any, Optional

from tarmac.node.container.images import Images, Kept

_LAYER_S = 86_400.0
"""The time for which the layers of an interrupted pull are kept, so that the next one can continue."""

REMOVED, IN_USE, ABSENT = "removed", "in use", "absent"


def listing(directory: str) -> list[dict[str, Any]]:
    """The images below a directory, by name: see `model.abilities.KeptImage`."""
    return [_record(kept) for kept in Images(directory).kept()]


def remove(directory: str, digest: str) -> str:
    """Remove an image and the layers that no other has; returns one of the words above. Raises OSError."""
    images = Images(directory)
    if images.by_digest(digest) is None:
        return ABSENT
    return REMOVED if images.remove(digest) else IN_USE


def clear(directory: str, *, limit_bytes: Optional[int], unused_days: Optional[float]) -> list[str]:
    """Remove images unused for `unused_days`, and, over the limit, the least recently used ones.

    Also removes the layers of interrupted pulls. Returns the names of the removed images; those in use by a
    run stay. Raises OSError.
    """
    images, gone = Images(directory), []
    oldest = sorted((kept for kept in images.kept() if not kept.in_use), key=lambda kept: kept.used_at)
    for kept in oldest:
        over = limit_bytes is not None and sum(images.layer_sizes().values()) > limit_bytes
        old = unused_days is not None and time.time() - kept.used_at > unused_days * 86_400.0
        if (over or old) and images.remove(kept.image.digest):
            gone.append(kept.image.name)
    images.clear_halves()
    images.clear_layers(before=time.time() - _LAYER_S)
    return gone


def _record(kept: Kept) -> dict[str, Any]:
    image = kept.image
    return {
        "name": image.name,
        "digest": image.digest,
        "size_bytes": image.size_bytes,
        "disk_bytes": sum(image.layer_bytes),
        "fetched_at": image.fetched_at,
        "used_at": kept.used_at,
        "in_use": kept.in_use,
    }

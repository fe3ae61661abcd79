"""Opens `RayServers` when a cluster is first started: other servers load none of it. Used by `wiring`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.engines.ray.servers.ray_servers import RayServers


def ray_servers(tokens: Path) -> RayServers:
    """The starter of Ray clusters, which stores their tokens in the directory `tokens`."""
    from tarmac.engines.ray.servers.ray_servers import RayServers  # noqa: PLC0415

    return RayServers(tokens)

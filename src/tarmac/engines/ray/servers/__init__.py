"""Starts and ends a Ray cluster on machines that only SSH reaches: `tarmac cluster up` and `down`.

A server that starts no cluster loads none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.engines.hosts.ssh import Ssh
    from tarmac.engines.ray.servers.ray_servers import RayServers


def open_servers(tokens: Path, *, ssh: Callable[[str], Ssh]) -> RayServers:
    """The starter of Ray clusters, which stores their tokens in the directory `tokens`."""
    from tarmac.engines.ray.servers.ray_servers import RayServers  # noqa: PLC0415

    return RayServers(tokens, ssh=ssh)

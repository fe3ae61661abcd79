"""The images of a cluster whose nodes share one directory for them. Inherited by the Slurm engine."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.engines.hosts.host import Host
from tarmac.model.abilities import KeptImage


class SharedImages:
    """The ability `KeepsImages`, over the host of the cluster."""

    _host: Host

    def images(self) -> Sequence[KeptImage]:
        return self._host.images("")

    def remove_image(self, image: KeptImage) -> bool:
        return self._host.remove_image(image.digest)

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        return self._host.clear_images(limit_bytes=limit_bytes, unused_days=unused_days)

"""The kind of engine for `engine: ray`. Made by `server/wiring.py`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.settings import TOKEN, RaySettings, read_settings
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.secret import SERVER, SecretUse
from tarmac.node.files import untrusted

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.ray.engine import RayEngine

LONGEST_TOKEN_BYTES = 4096


class RayKind:
    """Opens the engines of Ray clusters; `ssh` is the way to a host that a cluster names."""

    def __init__(self, supplies: Supplies, *, ssh: Callable[[str], Ssh] = Ssh) -> None:
        self._supplies = supplies
        self._ssh = ssh

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for settings that describe no Ray."""
        settings = read_settings(cluster.settings)
        for name in cluster.credentials:
            if name != TOKEN:
                raise InvalidInput(
                    f"the engine ray has no credential {name!r}", hint="its one credential is 'token'"
                )
        if cluster.credentials and settings.token_file is not None:
            raise InvalidInput("the token is given twice: as a credential, and by 'token_file'")

    def open(self, cluster: Cluster) -> RayEngine:
        """The engine of a cluster, which begins to connect to its nodes."""
        from tarmac.engines.ray.bridge import Bridge  # noqa: PLC0415
        from tarmac.engines.ray.engine import RayEngine  # noqa: PLC0415

        settings, supplies = read_settings(cluster.settings), self._supplies
        copies = supplies.copies / cluster.name
        key = hashlib.sha256(f"{os.uname().nodename}:{copies.resolve()}".encode()).hexdigest()[:12]
        secret = cluster.credentials.get(TOKEN)
        ssh = self._ssh(settings.ssh) if settings.ssh is not None else None
        return RayEngine(
            cluster.name,
            settings,
            Bridge(settings, key, token=lambda: self._token(settings, secret), ssh=ssh),
            supplies,
            tunnel=ssh if settings.tunnel else None,
            guarded=secret is not None or settings.token_file is not None,
        )

    def _token(self, settings: RaySettings, secret: str | None) -> str | None:
        """The current token of the Ray; None if it needs none."""
        if secret is not None:
            return self._supplies.secrets([SecretUse(name=secret, scope=SERVER)])[secret].strip()
        if settings.token_file is None:
            return None
        try:
            return untrusted.read_bytes(str(settings.token_file), LONGEST_TOKEN_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is no text"
            raise Unavailable(f"token_file {settings.token_file}: {words}") from None

"""The tables of foreign systems in a server's settings. Read by `server.settings`, used by `gateways`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tarmac.model.codec import replace
from tarmac.systems.determined.settings import DeterminedSettings


class Systems(Struct, frozen=True, kw_only=True):
    """One table for each system that has settings."""

    determined: DeterminedSettings = DeterminedSettings()

    @property
    def listen(self) -> str | None:
        """The address of the gateway: a server for a system's own command."""
        return self.determined.listen

    def at(self, listen: str) -> Systems:
        """These settings with another address of the gateway."""
        return Systems(determined=replace(self.determined, listen=listen))


GATEWAY = "determined"
"""The system with a gateway."""

SYSTEM_TABLES: Mapping[str, type[Struct]] = {GATEWAY: DeterminedSettings}
"""Their names in the file."""

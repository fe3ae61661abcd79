"""What the routes work with: the control plane and the few facts about this server, in one frozen record.

Made by `wiring` (and by tests, over fakes); passed to every function that makes routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tarmac.artifacts.code.arrivals import Arrivals
from tarmac.control.service import ControlPlane
from tarmac.dialects.dialect import Dialect
from tarmac.dialects.registry import DIALECTS
from tarmac.dialects.site_names import NO_NAMES, Names
from tarmac.model.ports import Clock
from tarmac.model.run import Attempt
from tarmac.server.changes import Changes
from tarmac.server.once_notices import SlotsNotice
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.secret_service import SecretService


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running server's parts. `attempt_directory` tells where an attempt's files lie, if on this machine.

    `ended_days`: runs that ended longer ago are left out of plain lists. `stop` asks the server to end.
    `dialects` read what is submitted, with what the cluster gives to their runs; `names`
    are what other sites call what there is here.
    """

    plane: ControlPlane
    artifacts: ArtifactService
    datasets: DatasetService
    secrets: SecretService
    arrivals: Arrivals
    clock: Clock
    changes: Changes
    home: str
    pid: int
    started_at: float
    ended_days: float
    slots_note: SlotsNotice
    attempt_directory: Callable[[Attempt], str | None]
    stop: Callable[[], None]
    dialects: Sequence[Dialect] = DIALECTS
    names: Names = NO_NAMES

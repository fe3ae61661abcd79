"""The common state of the routes: the control plane and some facts about this server, in a frozen record.

Made by `wiring` (and by tests, over fakes); passed to the handlers of all routes.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tarmac.artifacts.code.arrivals import Arrivals
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.control.service import ControlPlane
from tarmac.dialects.dialect import Dialect
from tarmac.dialects.site_names import NO_NAMES, Names
from tarmac.model.home import Home
from tarmac.model.kinds.engines import NO_CONTAINER_SETTINGS, ContainerSettings
from tarmac.model.ports import Clock
from tarmac.model.run import Attempt
from tarmac.model.run_records import Numbers
from tarmac.server.accounts.account_service import AccountService
from tarmac.server.accounts.sign_on import SignOnService
from tarmac.server.announcing import Announcements
from tarmac.server.changes import Changes
from tarmac.server.http.auth import Audit, RequestCounts, no_audit
from tarmac.server.http.rates import Rates
from tarmac.server.local_images import LocalImages
from tarmac.server.page.door import Door
from tarmac.server.settings import CodeSettings
from tarmac.server.storage.annotation_service import AnnotationService
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.image_service import ImageService
from tarmac.server.storage.run_remover import RunRemover
from tarmac.server.storage.secret_service import SecretService
from tarmac.server.submission_hook import SubmissionHook
from tarmac.systems.registry import DIALECTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """The settings of a server for reading submissions. `dialects` include cluster defaults for their runs.

    `names` maps names of other sites to local ones; `images` checks which images this machine can use.
    """

    dialects: Sequence[Dialect] = DIALECTS
    names: Names = NO_NAMES
    code_limit_bytes: int = CodeSettings().limit_bytes
    containers: ContainerSettings = NO_CONTAINER_SETTINGS
    images: LocalImages | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of a running server. `attempt_directory` finds an attempt's files on this machine.

    `ended_days`: plain lists omit runs that ended longer ago. `slots_note` is about this
    machine's slots, `hook` the site's own check of submissions. `daemon` sets `stop`, which asks the
    server to end, and `listen`, which serves another listener.
    """

    plane: ControlPlane
    artifacts: ArtifactService
    datasets: DatasetService
    secrets: SecretService
    accounts: AccountService
    sign_on: SignOnService
    door: Door
    images: ImageService
    remover: RunRemover
    annotations: AnnotationService
    announcements: Announcements
    numbers: Numbers
    arrivals: Arrivals
    reading: ReadingRules
    code: DirectoryCodeStore
    clock: Clock
    changes: Changes
    home: Home
    pid: int
    started_at: float
    ended_days: float
    attempt_directory: Callable[[Attempt], str | None]
    slots_note: str | None = None
    hook: SubmissionHook | None = None
    stop: Callable[[], None] = lambda: None
    listen: Callable[[socket.socket], None] = lambda _listener: None
    loop_trouble: Callable[[], Sequence[str]] = tuple
    requests: RequestCounts = field(default_factory=RequestCounts)
    audit: Audit = no_audit
    rates: Rates = field(default_factory=Rates)


class Handlers:
    """The base of classes whose methods are the handlers of operations (`http.routing.serve`)."""

    def __init__(self, service: Service) -> None:
        self.service, self.plane = service, service.plane

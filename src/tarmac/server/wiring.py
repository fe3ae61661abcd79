"""The only module that joins ports to adapters. Called by `daemon`; tests join others over the same seams."""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tarmac.artifacts.code.arrivals import Arrivals
from tarmac.artifacts.code.git import RepositoryCodeStore
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.control.burst.renter import BurstParts, Threads
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.metric_intake import MetricSubscriber
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptSettings
from tarmac.engines.firecrest.kind import FirecrestKind
from tarmac.engines.hosts.installing import Forward, Sidecar, Supplies
from tarmac.engines.local.engine import LocalEngine
from tarmac.engines.local.nodes import local_nodes, survey
from tarmac.engines.ray.kind import RayKind
from tarmac.engines.ray.servers import open_servers
from tarmac.engines.ray.servers.rented import RentedRays
from tarmac.engines.slurm.kind import SlurmKind
from tarmac.engines.unicore.kind import UnicoreKind
from tarmac.model.cluster import LOCAL_ENGINE
from tarmac.model.home import Home
from tarmac.model.kinds.engines import EngineKind
from tarmac.model.run import Attempt
from tarmac.node.attempt.document import ArtifactSync, NodeSettings
from tarmac.node.host.relay import loopback
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.providers.kinds import provider_kinds
from tarmac.samplers import searcher_of
from tarmac.server.accounts.account_service import AccountService
from tarmac.server.accounts.auditing import Auditor
from tarmac.server.accounts.authenticator import API_USER, Authenticator
from tarmac.server.accounts.sign_on import SignOnService
from tarmac.server.announcing import READ_EVERY_S, Announcements
from tarmac.server.changes import Changes
from tarmac.server.health import DatabaseCheck
from tarmac.server.http.auth import Access
from tarmac.server.http.connections import allow_open_files
from tarmac.server.http.listeners import loopback_address
from tarmac.server.local_images import LocalImages
from tarmac.server.notifying.sending import Sender
from tarmac.server.page.door import Door
from tarmac.server.run_ids import RandomIds
from tarmac.server.service import ReadingRules, Service
from tarmac.server.serving import newest_run, take_cluster
from tarmac.server.settings import Settings
from tarmac.server.storage.annotation_service import AnnotationService
from tarmac.server.storage.artifact_service import TIDY_EVERY_S, ArtifactService
from tarmac.server.storage.cleaners import AttemptCleaner, CodeCleaner, Janitor
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.image_service import ImageService
from tarmac.server.storage.run_remover import RunRemover
from tarmac.server.storage.secret_service import NO_NAMES, SecretService
from tarmac.server.storage.site_artifacts import SiteArtifacts
from tarmac.server.submission_hook import SubmissionHook
from tarmac.server.submitting.submissions import resolve_references
from tarmac.store import SqlStore, open_store
from tarmac.systems.gateways import FORWARD_EVERY_S, OWNERS, dialects_of, sources_of, tracking_of
from tarmac.systems.registry import apply_conventions
from tarmac.vault import KeyFile, Vault

log = logging.getLogger(__name__)


class Background(Protocol):
    """Work beside the loops, in threads of its own."""

    def start(self) -> None:
        """Start the work."""

    def stop(self) -> None:
        """Stop the work; the next server continues it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a server that must be started and closed. `service` has those that routes use."""

    service: Service
    loops: Loops
    store: SqlStore
    check: DatabaseCheck
    background: Sequence[Background]

    def start(self, *, stop: Callable[[], None]) -> None:
        """Start all background work. `stop` is called if this server must stop."""
        self.loops.start(on_lost=stop)
        self.check.start(on_damage=stop)
        for work in self.background:
            work.start()

    def close(self) -> None:
        """Close all parts, in order. Runs continue."""
        self.check.stop()
        for work in reversed(self.background):
            work.stop()
        self.loops.stop()
        self.service.plane.control.engines.close()
        self.store.close()


def join(home: Home, settings: Settings, access: Access, *, take_over: bool = False) -> Parts:
    """Build the parts of a home's server. Raises TarmacError for an invalid cluster or database.

    `take_over`: a user declares that the previous server of the cluster is gone for good.
    """
    return _Joining(home, settings, access, take_over=take_over).parts()


class _Joining:
    """The parts of one server while they are joined. An engine needs its nodes first, then its store."""

    def __init__(self, home: Home, settings: Settings, access: Access, *, take_over: bool) -> None:
        self._home, self._settings = home, settings
        self._clock = SystemClock()
        self._storing = ArtifactSync(
            store=settings.artifacts.store or str(home.artifacts.resolve()),
            command=(sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar"),
            patience_s=settings.artifacts.patience_s,
        )
        self._attempts = AttemptSettings(
            node=NodeSettings(log_limit_bytes=settings.logs.limit_bytes),
            git=settings.git.rules,
            own_packages=settings.shared,
        )
        self._engine = self._local_engine()
        self._engine.start()
        self._store = open_store(settings.database.url or f"sqlite:///{home.database}")
        self._check = DatabaseCheck(home, self._store)
        self._check.before_start()
        cluster = settings.server.cluster
        self._serving = take_cluster(self._store, home, self._clock, cluster=cluster, take_over=take_over)
        callers = Authenticator(self._store.accounts, self._clock, access)
        self._accounts = AccountService(self._store.accounts, callers, self._clock)
        self._announcements = Announcements(self._store.announcements, self._clock)
        self._keys = KeyFile(Path(settings.secrets.key_file or home.secret_keys))
        owner = dict.fromkeys((API_USER, *OWNERS), access.owner)
        self._secrets = SecretService(
            Vault(self._store.secrets, self._keys, self._clock),
            self._store,
            owner_names=lambda: NO_NAMES if self._accounts.exist() else owner,
        )
        self._code = DirectoryCodeStore(
            home.code,
            limit_bytes=settings.code.limit_bytes,
            timeout_s=settings.code.timeout_s,
            leave_out=(home.root,),
        )
        self._catalog = Catalog(self._storing.store)
        self._sites = SiteArtifacts(
            self._catalog,
            self._store,
            engines=lambda: self._plane.file_engines(),  # noqa: PLW0108 - made below
            keep_versions=settings.artifacts.keep_versions,
        )
        self._artifacts = ArtifactService(
            self._catalog,
            self._store,
            self._clock,
            Rules(versions=settings.artifacts.keep_versions, days=settings.artifacts.keep_days),
            marker=home.artifact_store,
            sites=self._sites,
        )
        self._datasets = DatasetService(
            self._store,
            home.datasets.resolve(),
            self._clock,
            server=self._serving.cluster,
            private_addresses=settings.private_addresses,
        )
        self._plane = self._control_plane()
        self._plane.clusters.check()

    def _local_engine(self) -> LocalEngine:
        machine, settings = survey(), self._settings
        if machine.note is not None and not settings.local:
            log.info("%s", machine.note)
        cluster = settings.server.cluster
        return LocalEngine(
            self._home.root,
            local_nodes(machine, settings.local, name=cluster),
            machine=machine,
            attempts=replace(
                self._attempts,
                keeping=self._storing,
                containers=settings.containers.of(cluster),
                least_uid=settings.runs.least_uid,
            ),
            open_files=allow_open_files(),
            secrets=lambda names: self._secrets.values(names),  # noqa: PLW0108 - made later
        )

    def _control_plane(self) -> ControlPlane:
        home, settings, supplies = self._home, self._settings, self._supplies()
        rented = RentedRays(home.rentals, copies=home.copies, home=home.root)
        sites: dict[str, EngineKind] = {
            "firecrest": FirecrestKind(supplies),
            "unicore": UnicoreKind(supplies),
        }
        tracking = self._tracking = tracking_of(
            self._store,
            self._secrets.values,
            self._clock,
            server=self._serving.cluster,
            private_addresses=settings.private_addresses,
        )
        resolve = resolve_references(
            self._artifacts,
            self._datasets,
            self._secrets,
            sends_mail=settings.notifications.mail is not None,
            sources=sources_of(self._store),
            cluster_of=lambda name: self._plane.control.inventory.described(name),  # noqa: PLW0108 - made below
        )
        plane = ControlPlane(
            ControlState(
                store=self._store,
                engine=self._engine,
                code=RepositoryCodeStore(
                    self._code,
                    home.repositories,
                    rules=settings.git.rules,
                    timeout_s=settings.git.timeout_s,
                    limit_bytes=self._code.limit_bytes,
                    secrets=self._secrets.values,
                ),
                clock=self._clock,
                ids=RandomIds(newest_run(self._store)),
                pools=settings.pools,
                apply_conventions=apply_conventions,
                allow_system_packages=settings.setup.allow_system_packages,
                system_user_of=lambda user: self._accounts.callers.system_user_of(user),  # noqa: PLW0108 - made later
                serving=self._serving,
                notify_always=settings.notifications.every_run,
                trackers=tracking.subscriptions,
                kinds={"ray": RayKind(supplies, ssh=rented.ssh), "slurm": SlurmKind(supplies), **sites},
            ),
            resolve=resolve,
            sender=Sender(
                mail=settings.notifications.mail,
                secrets=self._secrets.values,
                private_addresses=settings.private_addresses,
                adapters=tracking.adapters,
            ),
            starter=lambda: open_servers(home.cluster_tokens, ssh=rented.ssh),
            searcher_of=searcher_of,
            burst=BurstParts(provider_kinds(self._secrets.values), rented, settings.burst, Threads),
        )
        subscriber = MetricSubscriber(tracking.select, tracking.note_events)
        plane.control.metric_subscribers[tracking.name] = subscriber
        return plane

    def _supplies(self) -> Supplies:
        """The supplies for engines of remote clusters."""
        forward = None
        if self._settings.systems.listen is not None:
            address, port = loopback_address(self._settings.systems.listen)
            forward = Forward(address=address, port=port, socket=self._home.gateway, loopback=loopback())
        return Supplies(
            code=self._code,
            secrets=self._secrets.values,
            sidecar=Sidecar(
                store=self._storing.store,
                patience_s=self._storing.patience_s,
                packages=tuple(NODE_DIRECTORY.with_name(name) for name in ("artifacts", "model")),
                send=self._sites.send,
            ),
            artifacts=self._artifacts.answer,
            attempts=replace(self._attempts, least_uid=self._settings.runs.least_uid),
            runs_as=self._user_at_cluster,
            credentials=self._secrets.credentials,
            containers=self._settings.containers,
            copies=self._home.copies,
            forward=forward,
        )

    def _user_at_cluster(self, run_id: str) -> str | None:
        run = self._store.load_runs([run_id]).get(run_id)
        return run.spec.user_at_cluster if run is not None else None

    def parts(self) -> Parts:
        """The parts, not started yet."""
        settings, store, clock, engines = self._settings, self._store, self._clock, self._plane.file_engines
        images = ImageService(
            self._plane.image_keepers,
            own=settings.server.cluster,
            limit_bytes=settings.images.cache_limit_bytes,
            unused_days=settings.images.cache_days,
        )
        remover = RunRemover(
            self._plane,
            store,
            self._catalog,
            clock,
            engines=engines,
            keep_days=settings.runs.keep_days,
            sites=self._sites,
        )
        attempts = AttemptCleaner(
            store,
            clock,
            engines=engines,
            work_days=settings.code.work_days,
            log_days=settings.logs.keep_days,
            code_days=settings.code.keep_days,
        )
        code = CodeCleaner(self._code, store, clock, keep_days=settings.code.keep_days)
        heralds = Janitor("announcement", self._announcements.read_again, every_s=READ_EVERY_S)
        loops, track = Loops(self._plane), self._tracking
        return Parts(
            service=self._service(loops, images, remover),
            loops=loops,
            store=store,
            check=self._check,
            background=(
                Janitor("artifacts", self._artifacts.tidy, every_s=TIDY_EVERY_S, begin=self._artifacts.begin),
                self._sites,
                self._datasets,
                Janitor("code", code.tidy),
                Janitor("remains", attempts.tidy),
                Janitor("images", images.clear),
                Janitor("runs", remover.tidy),
                Janitor("tracking", track.forward_news, every_s=FORWARD_EVERY_S, begin=track.begin),
                *([heralds] if settings.database.url else []),
            ),
        )

    def _service(self, loops: Loops, images: ImageService, remover: RunRemover) -> Service:
        """The common state of this server's routes."""
        home, settings = self._home, self._settings
        changes = Changes()
        self._plane.subscribe(changes.tell)
        layout = Layout(home.root)

        def directory(attempt: Attempt) -> str | None:
            path = layout.attempt(attempt.id) if attempt.engine == LOCAL_ENGINE else None
            return str(path) if path is not None else None

        return Service(
            plane=self._plane,
            arrivals=Arrivals(self._code),
            reading=ReadingRules(
                dialects=dialects_of(settings.systems, filename=str(home.settings)),
                names=settings.names,
                code_limit_bytes=self._code.limit_bytes,
                containers=settings.containers,
                images=LocalImages(
                    layout.images, try_container=self._engine.try_containers, replaceable=not settings.shared
                ),
            ),
            code=self._code,
            artifacts=self._artifacts,
            datasets=self._datasets,
            secrets=self._secrets,
            accounts=self._accounts,
            sign_on=SignOnService(settings.sign_on, self._accounts, self._keys, self._clock),
            door=Door(home, self._accounts.callers, settings.server, self._clock),
            audit=Auditor(self._accounts, self._clock, changes.tell).note,
            images=images,
            remover=remover,
            numbers=self._store.numbers,
            announcements=self._announcements,
            annotations=AnnotationService(self._plane, self._store.annotations, self._clock),
            clock=self._clock,
            changes=changes,
            home=home,
            pid=os.getpid(),
            started_at=self._clock.now(),
            ended_days=settings.listing.ended_days,
            slots_note=None if settings.local else self._engine.note,
            hook=SubmissionHook(settings.submission) if settings.submission.hook else None,
            attempt_directory=directory,
            loop_trouble=loops.trouble,
        )


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

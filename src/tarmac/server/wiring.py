"""The only module that joins ports to adapters. Called by `daemon`; tests join others over the same seams."""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tarmac.artifacts.code.arrivals import Arrivals
from tarmac.artifacts.code.git import RepositoryCodeStore
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import ArtifactStoring, AttemptSettings
from tarmac.engines.hosts.installing import Forward, Sidecar, Supplies
from tarmac.engines.local import LocalEngine
from tarmac.engines.local.nodes import Machine, local_nodes, survey
from tarmac.engines.ray.kind import RayKind
from tarmac.engines.ray.servers import ray_servers
from tarmac.engines.slurm import SlurmKind
from tarmac.model.abilities import KeepsFiles
from tarmac.model.changes import ApplyConventions
from tarmac.model.cluster import LOCAL_ENGINE, Node
from tarmac.model.home import Home
from tarmac.model.notification import Subscription
from tarmac.model.ports import ResolveReferences
from tarmac.model.run import Attempt
from tarmac.model.secret import SecretValues
from tarmac.node.attempt.document import NodeSettings
from tarmac.node.host.forwarding import loopback
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.samplers import searcher_of
from tarmac.server.changes import Changes
from tarmac.server.health import DatabaseCheck
from tarmac.server.http.connections import allow_open_files
from tarmac.server.http.listeners import loopback_address
from tarmac.server.identity import RandomIds, SystemClock
from tarmac.server.local_images import LocalImages
from tarmac.server.notifying.sending import Sender
from tarmac.server.notifying.settings import MailServer
from tarmac.server.service import Service, SlotsNotice
from tarmac.server.serving import newest_run, take_cluster
from tarmac.server.settings import Settings
from tarmac.server.storage.annotation_service import AnnotationService
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.attempt_cleaner import AttemptCleaner
from tarmac.server.storage.code_cleaner import CodeCleaner
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.image_service import ImageService
from tarmac.server.storage.run_remover import RunRemover
from tarmac.server.storage.secret_service import SecretService
from tarmac.server.storage.site_artifacts import SiteArtifacts
from tarmac.server.submitting.submissions import resolve_references
from tarmac.store import SqlStore, open_store
from tarmac.systems.gateways import dialects_of, resolve_sources, with_systems
from tarmac.systems.registry import apply_conventions
from tarmac.vault import KeyFile, Vault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a server that must be started and closed."""

    plane: ControlPlane
    loops: Loops
    store: SqlStore
    engine: LocalEngine
    clock: SystemClock
    artifacts: ArtifactService
    sites: SiteArtifacts
    datasets: DatasetService
    secrets: SecretService
    directories: DirectoryCodeStore
    code: CodeCleaner
    remains: AttemptCleaner
    images: ImageService
    remover: RunRemover
    check: DatabaseCheck

    def start(self, *, stop: Callable[[], None]) -> None:
        """Start all background work. `stop` is called if this server must stop."""
        self.loops.start(on_lost=stop)
        self.check.start(on_damage=stop)
        self.artifacts.janitor.start()
        self.sites.start()
        self.datasets.start()
        self.code.janitor.start()
        self.remains.janitor.start()
        self.images.janitor.start()
        self.remover.janitor.start()

    def close(self) -> None:
        """Close all parts, in order. Runs continue."""
        self.check.stop()
        self.remover.janitor.stop()
        self.images.janitor.stop()
        self.remains.janitor.stop()
        self.code.janitor.stop()
        self.datasets.stop()
        self.sites.stop()
        self.artifacts.janitor.stop()
        self.loops.stop()
        self.plane.control.engines.close()
        self.store.close()


def join(home: Home, settings: Settings, *, take_over: bool = False) -> Parts:
    """Build the parts of a home's server. Raises TarmacError for an invalid cluster or database.

    `take_over`: a user declares that the previous server of the cluster is gone for good.
    """
    clock = SystemClock()
    keeping = _artifact_storing(home, settings)
    engine = _local_engine(home, settings, keeping, lambda names: secrets.values(names))  # noqa: PLW0108 - below
    engine.start()
    store = open_store(settings.database.url or f"sqlite:///{home.database}")
    (check := DatabaseCheck(home, store)).before_start()
    serving = take_cluster(store, home, clock, cluster=settings.server.cluster, take_over=take_over)
    secrets = SecretService(_vault(home, settings, store, clock), store)
    directories = _code_store(home, settings)
    catalog, marker = Catalog(keeping.store), home.artifact_store
    sites = _sites(catalog, store, settings, lambda: plane.file_engines())  # noqa: PLW0108 - made below
    artifacts = ArtifactService(catalog, store, clock, _rules(settings), marker=marker, sites=sites)
    datasets = _datasets(home, settings, store, clock, serving.cluster)
    sidecar = _sidecar(keeping, sites)
    supplies = _supplies(home, settings, directories, secrets.values, artifacts, sidecar=sidecar)
    plane = ControlPlane(
        ControlState(
            store=store,
            engine=engine,
            code=_repositories(home, settings, directories, secrets.values),
            clock=clock,
            ids=RandomIds(newest_run(store)),
            pools=settings.pools,
            apply_conventions=_conventions(settings, datasets, store),
            allow_system_packages=settings.setup.allow_system_packages,
            serving=serving,
            notify_always=_notify_always(settings),
            kinds={"ray": RayKind(supplies), "slurm": SlurmKind(supplies)},
        ),
        resolve=_resolve(settings, artifacts, datasets, secrets, store),
        sender=_sender(settings, secrets.values),
        starter=lambda: ray_servers(home.cluster_tokens),
        searcher_of=searcher_of,
    )
    plane.clusters.check()
    return Parts(
        plane=plane,
        loops=Loops(plane),
        store=store,
        engine=engine,
        clock=clock,
        artifacts=artifacts,
        sites=sites,
        datasets=datasets,
        secrets=secrets,
        directories=directories,
        check=check,
        code=CodeCleaner(directories, store, clock, keep_days=settings.code.keep_days),
        remains=_remains(plane, settings, store, clock),
        images=_images(plane, settings),
        remover=_remover(plane, settings, store, catalog, sites=sites, clock=clock),
    )


def _sites(
    catalog: Catalog, store: SqlStore, settings: Settings, engines: Callable[[], Mapping[str, KeepsFiles]]
) -> SiteArtifacts:
    return SiteArtifacts(catalog, store, engines=engines, keep_versions=settings.artifacts.keep_versions)


def _conventions(settings: Settings, datasets: DatasetService, store: SqlStore) -> ApplyConventions:
    """Additions to the launch of a run: its datasets, and the conventions of its file's system."""
    return with_systems(datasets.with_datasets(apply_conventions), settings.systems, store)


def _resolve(
    settings: Settings,
    artifacts: ArtifactService,
    datasets: DatasetService,
    secrets: SecretService,
    store: SqlStore,
) -> ResolveReferences:
    """Resolves the references of a new run, including the numbers in foreign files."""
    sends_mail = _mail(settings) is not None
    resolve = resolve_references(artifacts, datasets, secrets, sends_mail=sends_mail)
    return resolve_sources(resolve, store)


def _datasets(
    home: Home, settings: Settings, store: SqlStore, clock: SystemClock, server: str
) -> DatasetService:
    """The datasets that this server fetches for runs."""
    place, private = home.datasets.resolve(), settings.private_addresses
    return DatasetService(store, place, clock, server=server, private_addresses=private)


def _sender(settings: Settings, secrets: SecretValues) -> Sender:
    """The sender of this server's messages."""
    return Sender(mail=_mail(settings), secrets=secrets, private_addresses=settings.private_addresses)


def _notify_always(settings: Settings) -> Sequence[Subscription]:
    return settings.notifications.every_run if settings.notifications is not None else ()


def _mail(settings: Settings) -> MailServer | None:
    return settings.notifications.mail if settings.notifications is not None else None


def _repositories(
    home: Home, settings: Settings, directories: DirectoryCodeStore, secrets: SecretValues
) -> RepositoryCodeStore:
    """The code store, extended by repositories."""
    return RepositoryCodeStore(
        directories,
        home.repositories,
        rules=settings.git.rules,
        timeout_s=settings.git.timeout_s,
        limit_bytes=directories.limit_bytes,
        secrets=secrets,
    )


def _supplies(
    home: Home,
    settings: Settings,
    code: DirectoryCodeStore,
    secrets: SecretValues,
    artifacts: ArtifactService,
    *,
    sidecar: Sidecar,
) -> Supplies:
    """The supplies for engines of remote clusters."""
    return Supplies(
        code=code,
        secrets=secrets,
        sidecar=sidecar,
        artifacts=artifacts.answer,
        attempts=_attempts(settings),
        containers=settings.containers,
        copies=home.copies,
        forward=_forward(home, settings),
    )


def _attempts(settings: Settings) -> AttemptSettings:
    """The settings of attempts that are the same on every cluster."""
    node = NodeSettings(log_limit_bytes=settings.logs.limit_bytes)
    return AttemptSettings(node=node, git=settings.git.rules, own_packages=settings.shared)


def _sidecar(keeping: ArtifactStoring, sites: SiteArtifacts) -> Sidecar:
    """The sidecar that stores artifacts on remote clusters."""
    packages = tuple(NODE_DIRECTORY.with_name(name) for name in ("artifacts", "model"))
    return Sidecar(store=keeping.store, patience_s=keeping.patience_s, packages=packages, send=sites.send)


def _forward(home: Home, settings: Settings) -> Forward | None:
    """The forward from remote runs to the gateway, if there is one."""
    if settings.systems.listen is None:
        return None
    address, port = loopback_address(settings.systems.listen)
    return Forward(address=address, port=port, socket=home.gateway, loopback=loopback())


def _remains(plane: ControlPlane, settings: Settings, store: SqlStore, clock: SystemClock) -> AttemptCleaner:
    return AttemptCleaner(
        store,
        clock,
        engines=plane.file_engines,
        work_days=settings.code.work_days,
        log_days=settings.logs.keep_days,
        code_days=settings.code.keep_days,
    )


def _remover(
    plane: ControlPlane,
    settings: Settings,
    store: SqlStore,
    catalog: Catalog,
    *,
    sites: SiteArtifacts,
    clock: SystemClock,
) -> RunRemover:
    keep_days = settings.runs.keep_days
    return RunRemover(
        plane, store, catalog, clock, engines=plane.file_engines, keep_days=keep_days, sites=sites
    )


def _images(plane: ControlPlane, settings: Settings) -> ImageService:
    return ImageService(
        plane.image_keepers,
        own=settings.server.cluster,
        limit_bytes=settings.images.cache_limit_bytes,
        unused_days=settings.images.cache_days,
    )


def _vault(home: Home, settings: Settings, store: SqlStore, clock: SystemClock) -> Vault:
    keys = Path(settings.secrets.key_file) if settings.secrets.key_file is not None else home.secret_keys
    return Vault(store.secrets, KeyFile(keys), clock)


def _local_engine(
    home: Home, settings: Settings, keeping: ArtifactStoring, secrets: SecretValues
) -> LocalEngine:
    machine = survey()
    return LocalEngine(
        home.root,
        _nodes(machine, settings),
        machine=machine,
        attempts=replace(
            _attempts(settings), keeping=keeping, containers=settings.containers.of(settings.server.cluster)
        ),
        open_files=allow_open_files(),
        secrets=secrets,
    )


def service_of(parts: Parts, home: Home, settings: Settings, *, stop: Callable[[], None]) -> Service:
    """The common state of this server's routes."""
    changes = Changes()
    parts.plane.subscribe(changes.tell)
    layout = Layout(home.root)
    return Service(
        plane=parts.plane,
        arrivals=Arrivals(parts.directories),
        containers=settings.containers,
        local_images=LocalImages(
            layout.images, try_container=parts.engine.try_containers, replaceable=not settings.shared
        ),
        code=parts.directories,
        artifacts=parts.artifacts,
        datasets=parts.datasets,
        secrets=parts.secrets,
        images=parts.images,
        remover=parts.remover,
        numbers=parts.store.numbers,
        annotations=AnnotationService(parts.plane, parts.store.annotations, parts.clock),
        clock=parts.clock,
        changes=changes,
        home=str(home.root),
        pid=os.getpid(),
        started_at=parts.clock.now(),
        ended_days=settings.listing.ended_days,
        slots_note=SlotsNotice(None if settings.local else parts.engine.note, home.slots_note_marker),
        attempt_directory=lambda attempt: _directory(layout, attempt),
        stop=stop,
        loop_trouble=parts.loops.trouble,
        dialects=dialects_of(settings.systems, filename=str(home.settings)),
        names=settings.names,
    )


def _rules(settings: Settings) -> Rules:
    """The retention rules for versions of artifacts."""
    return Rules(versions=settings.artifacts.keep_versions, days=settings.artifacts.keep_days)


def _artifact_storing(home: Home, settings: Settings) -> ArtifactStoring:
    return ArtifactStoring(
        store=settings.artifacts.store or str(home.artifacts.resolve()),
        command=(sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar"),
        patience_s=settings.artifacts.patience_s,
    )


def _nodes(machine: Machine, settings: Settings) -> Sequence[Node]:
    """The nodes of the server's own cluster: from the settings, or else this machine with its devices."""
    if machine.note is not None and not settings.local:
        log.info("%s", machine.note)
    return local_nodes(machine, settings.local, name=settings.server.cluster)


def _code_store(home: Home, settings: Settings) -> DirectoryCodeStore:
    code = settings.code
    return DirectoryCodeStore(
        home.code, limit_bytes=code.limit_bytes, timeout_s=code.timeout_s, leave_out=(home.root,)
    )


def _directory(layout: Layout, attempt: Attempt) -> str | None:
    path = layout.attempt(attempt.id) if attempt.engine == LOCAL_ENGINE else None
    return str(path) if path is not None else None

"""A served control plane inside the test process: real HTTP on a unix socket, fakes behind the ports.

The passes run when the test says so (`turn`), time passes when it says so (`clock`), and workers write when
it says so (`engine.write`). `client()` is the real client.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn
import uvloop
from starlette.types import ASGIApp

import tarmac
from cluster_starter import NAME, Starter
from fake_provider import FakeProvider
from rented_clusters import burst_parts
from scratch_store import ScratchStore
from served_sockets import TlsServer, for_members
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes
from tarmac.artifacts.code.arrivals import Arrivals
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.client import Client
from tarmac.client.embedded import EmbeddedServer
from tarmac.client.transport import Transport
from tarmac.control.reconcilers.deliver import deliver_pass
from tarmac.control.reconcilers.reconcile import reconcile_pass
from tarmac.control.reconcilers.schedule import schedule_pass
from tarmac.control.reconcilers.stage import stage_pass
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.abilities import KeepsFiles
from tarmac.model.cluster import Pool
from tarmac.model.home import Home
from tarmac.model.ports import ResolveReferences
from tarmac.model.progress import Notice
from tarmac.model.resources import NodeUtilization
from tarmac.node.attempt.document import Launch
from tarmac.node.container.making import Trial
from tarmac.server.accounts.account_service import AccountService
from tarmac.server.accounts.auditing import Auditor
from tarmac.server.accounts.authenticator import Authenticator
from tarmac.server.accounts.sign_on import SignOnService
from tarmac.server.announcing import Announced, Announcements
from tarmac.server.app import checked, routed
from tarmac.server.changes import Changes
from tarmac.server.http.auth import Access, AuthMiddleware
from tarmac.server.http.connections import SILENCE_S, Bodies, Limits, limited
from tarmac.server.http.rates import Rates
from tarmac.server.local_images import LocalImages
from tarmac.server.notifying.sending import Sender
from tarmac.server.page.door import Door
from tarmac.server.service import ReadingRules, Service
from tarmac.server.settings import AddressSettings, Settings, SignOnSettings, SubmissionSettings
from tarmac.server.storage.annotation_service import AnnotationService
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.image_service import ImageService
from tarmac.server.storage.run_remover import RunRemover
from tarmac.server.storage.secret_service import SecretService
from tarmac.server.storage.site_artifacts import SiteArtifacts
from tarmac.server.submission_hook import SubmissionHook
from tarmac.server.submitting.submissions import resolve_references
from tarmac.systems.determined.gateway.application import at_addresses
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.tokens import TokenMaker
from tarmac.systems.gateways import sources_of
from tarmac.vault import KeyFile, Vault

OWNER = "ada"
MEMBER = "bob"
TOKEN = "a-token-for-tests"

HELLO = "name: hello\ncommand: echo hello\n"


class WritableEngine(SimEngine):
    """The simulated engine, with files that a test writes while an attempt runs."""

    def __init__(self, clock: VirtualClock, behaviour: Callable[[Launch], Behaviour]) -> None:
        super().__init__(clock, nodes(2, 4), behaviour=behaviour)
        self._written: dict[tuple[str, str], bytes] = {}
        self.removed: list[str] = []
        self.removing: Exception | None = None
        self.measured: dict[str, Sequence[NodeUtilization]] = {}
        self._told: dict[str, list[Notice]] = {}

    def write(self, attempt_id: str, path: str, data: bytes) -> None:
        """Append to a file of an attempt, as a worker or runner would."""
        self._written[attempt_id, path] = self._written.get((attempt_id, path), b"") + data

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        return {each: self.measured[each] for each in attempt_ids if each in self.measured}

    def remains(self) -> Collection[str]:
        return ()

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        return 0

    def remove(self, run_id: str) -> None:
        if self.removing is not None:
            raise self.removing
        self.removed.append(run_id)

    def tell(self, attempt_id: str, notice: Notice) -> None:
        """Add a notice, as a runner would."""
        self._told.setdefault(attempt_id, []).append(notice)

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        return self._told.get(attempt_id, ())

    def _files(self, attempt_id: str) -> Mapping[str, bytes]:
        written = {path: data for (of, path), data in self._written.items() if of == attempt_id}
        return {**super()._files(attempt_id), **written}


USUAL = Limits()
ADDRESS = AddressSettings()
NO_SIGN_ON = SignOnSettings()

ENDED_DAYS = Settings().listing.ended_days
"""How long ended runs stay listed where nobody set it."""


class Served:
    """A control plane, its fakes, and the address of its API."""

    def __init__(
        self,
        root: Path,
        behaviour: Callable[[Launch], Behaviour],
        pools: Sequence[Pool] = (),
        *,
        keeps_code: bool = False,
        hook: SubmissionSettings | None = None,
        sign_on: SignOnSettings = NO_SIGN_ON,
    ) -> None:
        self.hook = hook and SubmissionHook(hook)
        self.home, self.sign_on = Home(root), sign_on
        self.clock, self.store = VirtualClock(1_000_000.0), ScratchStore()
        self.engine, self.catalog = WritableEngine(self.clock, behaviour), Catalog(str(root / "artifacts"))
        self.keepers: dict[str, KeepsFiles] = {}
        self.sites = SiteArtifacts(self.catalog, self.store, engines=lambda: self.keepers, keep_versions=3)
        self.artifacts = ArtifactService(
            self.catalog,
            self.store,
            self.clock,
            Rules(versions=3, days=None),
            marker=root / "artifact-store",
            sites=self.sites,
        )
        self.datasets = DatasetService(self.store, root / "datasets", self.clock)
        self.keys = KeyFile(root / "secrets.key")
        self.secrets = SecretService(Vault(self.store.secrets, self.keys, self.clock), self.store)
        access = Access(owner=OWNER, socket_name=str(self.home.socket), token=TOKEN)
        self.callers = Authenticator(self.store.accounts, self.clock, access)
        self.accounts = AccountService(self.store.accounts, self.callers, self.clock)
        self.changes, self.code = Changes(), DirectoryCodeStore(root / "code", leave_out=(root,))
        self.auditor = Auditor(self.accounts, self.clock, self.changes.tell)
        self.account = FakeProvider(self.clock.now)
        self.starter = Starter(SimEngine(self.clock, nodes(3, 4, cluster=NAME), behaviour=behaviour))
        self.plane = ControlPlane(
            ControlState(
                kinds={"placed": self.starter},
                store=self.store,
                engine=self.engine,
                code=self.code if keeps_code else InstantCode(),
                clock=self.clock,
                ids=CountingIds(),
                pools=pools,
            ),
            starter=lambda: self.starter,
            burst=burst_parts(self.account),
            resolve=self._resolve_references(),
            sender=Sender(mail=None, secrets=self.secrets.values, private_addresses=False),
        )
        self.stops = threading.Event()
        self.loop_trouble: list[str] = []
        self.tcp_port = 0
        self.gateway_port = 0
        self.member_port = 0
        self.tls_port = 0
        self.closing = ExitStack()
        self.plane.subscribe(self.changes.tell)

    def _resolve_references(self) -> ResolveReferences:
        parts = (self.artifacts, self.datasets, self.secrets)
        described = lambda name: self.plane.control.inventory.described(name)  # noqa: E731, PLW0108 - made later
        return resolve_references(*parts, sources=sources_of(self.store), cluster_of=described)

    def client(self, on_notice: Callable[[str], None] | None = None) -> Client:
        """The real client, over the socket of the home."""
        made = Client(home=self.home.root, start=False, on_notice=on_notice)
        self.closing.callback(made.close)
        return made

    def remote_client(self, token: str) -> Client:
        """The real client over TCP."""
        made = Client(f"http://127.0.0.1:{self.tcp_port}", home=self.home.root, token=token)
        self.closing.callback(made.close)
        return made

    def member_client(self) -> Client:
        """The real client of `MEMBER`, another user of the server who is no administrator."""
        made = Client(f"http://127.0.0.1:{self.member_port}", home=self.home.root, token=TOKEN)
        self.closing.callback(made.close)
        return made

    def transport(self) -> Transport:
        """The client's transport alone."""
        made = Transport(EmbeddedServer(str(self.home.root)), start=False)
        self.closing.callback(made.close)
        return made

    def turn(self) -> None:
        """One pass of each loop, in the order of a run's life."""
        self.plane.burst.turn(self.plane.control)
        for body in _PASSES:
            body(self.plane.control)

    def advance(self, seconds: float) -> None:
        """Let time pass, and let the loops see what came of it."""
        self.clock.advance(seconds)
        self.turn()

    def remover(self, *, keep_days: float | None = None) -> RunRemover:
        """What removes ended runs."""
        return RunRemover(
            self.plane,
            self.store,
            self.catalog,
            self.clock,
            engines=lambda: {"": self.engine},
            keep_days=keep_days,
            sites=self.sites,
        )

    def gateway(self, service: Service) -> Gateway:
        """What the routes for Determined's own command work with."""
        return Gateway(
            service=service,
            numbers=self.store.numbers,
            records=self.store.run_records,
            tokens=TokenMaker(TOKEN),
            owner=OWNER,
            url=f"http://127.0.0.1:{self.gateway_port}",
        )

    def service(self) -> Service:
        """What the routes work with."""
        return Service(
            artifacts=self.artifacts,
            datasets=self.datasets,
            secrets=self.secrets,
            accounts=self.accounts,
            sign_on=SignOnService(self.sign_on, self.accounts, self.keys, self.clock),
            door=Door(
                self.home, self.callers, AddressSettings(listen=f"127.0.0.1:{self.tcp_port}"), self.clock
            ),
            images=ImageService(self.plane.image_keepers, own="local"),
            remover=self.remover(),
            numbers=self.store.numbers,
            announcements=Announcements(self.store.announcements, self.clock),
            annotations=AnnotationService(self.plane, self.store.annotations, self.clock),
            plane=self.plane,
            arrivals=Arrivals(self.code),
            code=self.code,
            clock=self.clock,
            changes=self.changes,
            home=self.home,
            pid=os.getpid(),
            started_at=self.clock.now(),
            ended_days=ENDED_DAYS,
            reading=ReadingRules(
                images=LocalImages(
                    self.home.root / "images",
                    try_container=lambda: Trial(works=True, text="not tried"),
                    replaceable=False,
                )
            ),
            attempt_directory=lambda attempt: f"/attempts/{attempt.id}",
            stop=self.stops.set,
            audit=self.auditor.note,
            loop_trouble=lambda: self.loop_trouble,
            hook=self.hook,
        )


@contextmanager
def served(
    root: Path,
    *,
    behaviour: Callable[[Launch], Behaviour] = lambda _launch: Behaviour(),
    version: str = tarmac.__version__,
    pools: Sequence[Pool] = (),
    keeps_code: bool = False,
    limits: Limits = USUAL,
    silence_s: float = SILENCE_S,
    settings: AddressSettings = ADDRESS,
    tls: ssl.SSLContext | None = None,
    hook: SubmissionSettings | None = None,
    sign_on: SignOnSettings = NO_SIGN_ON,
) -> Iterator[Served]:
    """Serve a control plane over fakes from a thread until the block ends; `pools` are those with rules.

    `keeps_code`: with the real store of code; `limits` of connections, and how long a body may stand still;
    `settings` of what requests over TCP may do, and `tls` of a third listener. `hook` is the submission hook.
    """
    root.mkdir(mode=0o700, exist_ok=True)
    made = Served(root, behaviour, pools, keeps_code=keeps_code, hook=hook, sign_on=sign_on)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.bind(str(made.home.socket))
    unix.listen()
    sockets = [unix, *(socket.create_server(("127.0.0.1", 0)) for _ in range(3))]
    made.tcp_port, made.gateway_port, made.member_port = (each.getsockname()[1] for each in sockets[1:])
    app = _application(made, version, silence_s, settings)
    server = TlsServer(
        uvicorn.Config(
            app,
            http=limited(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
    )
    if tls is not None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        made.tls_port = listener.getsockname()[1]
        server.encrypted = listener, tls
    thread = threading.Thread(target=_serve, args=(server, made, sockets), name="served")
    thread.start()
    try:
        yield made
    finally:
        made.closing.close()
        server.should_exit = True
        thread.join()


def _application(made: Served, version: str, silence_s: float, settings: AddressSettings) -> ASGIApp:
    """The whole application: at the address of the gateway, at that of a member, and elsewhere."""
    service = made.service()
    inner = Announced(Bodies(routed(service, home=made.home), silence_s=silence_s), service.announcements)
    guarded = AuthMiddleware(
        inner,
        socket_name=str(made.home.socket),
        callers=made.accounts.callers,
        version=version,
        requests=service.requests,
        audit=made.auditor.note,
    )
    app = at_addresses(
        [("127.0.0.1", made.gateway_port)],
        made.gateway(service),
        otherwise=for_members(inner, ("127.0.0.1", made.member_port), MEMBER, otherwise=guarded),
    )
    rates = Rates(requests_per_minute=settings.requests_per_minute)
    return checked(app, settings, rates, audit=made.auditor.note)


def _serve(server: uvicorn.Server, made: Served, sockets: Sequence[socket.socket]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        made.changes.attach(loop)
        watcher = asyncio.create_task(_end_streams(server, made))
        await server.serve(sockets=list(sockets))
        await watcher

    uvloop.run(run())  # as the daemon does: it sends each part of an answer at once


async def _end_streams(server: uvicorn.Server, made: Served) -> None:
    """End the streams when the server is told to go, as the daemon does."""
    while not server.should_exit:
        await asyncio.to_thread(made.stops.wait, 0.02)
        if made.stops.is_set():
            server.should_exit = True
    made.changes.stop()


_PASSES = (
    stage_pass,
    schedule_pass,
    lambda control: deliver_pass(control, control.engines.own),
    lambda control: reconcile_pass(control, control.engines.own),
)

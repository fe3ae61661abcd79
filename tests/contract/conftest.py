"""What the contract suites run against: stores in memory, on SQLite and PostgreSQL; engines of every kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from delivered import deliver_early
from ec2_server import moto_server
from engine_harness import Harness, LocalHarness, SimBatchHarness, SimHarness
from firecrest_harness import FirecrestHarness
from gitserver import NO_SSHD
from memory_store import MemoryStore
from played_store import PlayedStore
from postgres import Missing, Server, running_server
from ray_harness import RayHarness
from slurm_clusters import Missing as MissingSlurm
from slurm_clusters import install_standin, running_slurm
from slurm_harness import RealSlurmHarness, SlurmHarness, SshHarness, StandInHarness
from ssh_hosts import LoginHost, login_host
from tarmac.model.ports import Store
from tarmac.store import open_store
from unicore_harness import UnicoreHarness

MEMORY, PLAY, SQLITE, POSTGRES = "memory", "play", "sqlite", "postgres"
SQL = [SQLITE, pytest.param(POSTGRES, marks=pytest.mark.postgres)]
EVERY = [MEMORY, *SQL]
DIALECT = frozenset(
    [
        "test_store",
        "test_store_faults",
        "test_store_metrics",
        "test_store_migrations",
        "test_store_servers",
        "test_store_threads",
    ]
)
"""The suites that `make test` runs on PostgreSQL too: types, locks, migrations, several writers at once."""
FAKES: dict[str, Callable[[], Any]] = {MEMORY: MemoryStore, PLAY: PlayedStore}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process starts a PostgreSQL; what SQLite catches as well is left to `make test-engines`."""
    for item in items:
        if item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.xdist_group("postgres"))
            if item.path.stem not in DIALECT:
                item.add_marker(pytest.mark.heavy)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server; the test is skipped where there is none."""
    try:
        with running_server() as server:
            yield server
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgres_template(postgres: Server) -> str:
    """The name of a database with our schema, to copy."""
    url = postgres.create()
    open_store(url).close()
    return url.rpartition("/")[2].partition("?")[0]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with our schema, to copy."""
    path = tmp_path_factory.mktemp("template") / "tarmac.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=SQL)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the test's own, with our schema: one test for each kind."""
    with _database(request, tmp_path) as url:
        yield url


@pytest.fixture(params=EVERY)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of the test's own: one test for each kind."""
    with _store(request, tmp_path) as opened:
        yield opened


@pytest.fixture(params=[PLAY, *EVERY])
def step_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of the test's own: one test for each kind, and for the store of plays."""
    with _store(request, tmp_path) as opened:
        yield opened


@pytest.fixture(params=[PLAY, *EVERY], scope="module")
def lasting_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A store for all tests of a module, and all examples of a property: they bring ids of their own."""
    with _store(request, tmp_path_factory.mktemp("store")) as opened:
        yield opened


ENGINES: dict[str, Callable[[Path], Harness]] = {
    "sim": lambda _home: SimHarness(),
    "sim-batch": lambda _home: SimBatchHarness(),
    "local": LocalHarness,
    "ray": RayHarness,
}


@pytest.fixture(params=[*list(ENGINES)[:-1], pytest.param("ray", marks=pytest.mark.heavy)])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An engine: one test for each kind."""
    made: Any
    if request.param == "slurm":
        made = RealSlurmHarness(tmp_path / "site", request.getfixturevalue("slurm"))
    else:
        made = ENGINES[request.param](tmp_path / "home")
    yield made
    made.close()


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the user of a real Slurm needs; the test is skipped where there is none."""
    try:
        with running_slurm(tmp_path_factory.mktemp("cluster") / "slurm", cpus_per_node=4) as variables:
            yield variables
    except MissingSlurm as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def optional_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginHost | None]:
    """A host behind SSH, if there can be one."""
    with login_host(tmp_path_factory.mktemp("login") / "keys") as host:
        yield host


@pytest.fixture
def login(optional_login: LoginHost | None) -> LoginHost:
    """A host behind SSH; the test is skipped where there can be none."""
    if optional_login is None:
        pytest.skip(NO_SSHD)
    return optional_login


@pytest.fixture
def standin_anywhere(optional_login: LoginHost | None, tmp_path: Path) -> StandInHarness:
    """Stand-ins at a host behind SSH, where there can be one: what works there works on this machine."""
    variables = install_standin(tmp_path / "standin")
    if optional_login is None:
        deliver_early(tmp_path / "site")
        return StandInHarness(tmp_path / "site", variables)
    deliver_early(optional_login.seen_there(optional_login.private / tmp_path.name))
    return SshHarness(tmp_path, variables, optional_login)


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[StandInHarness]:
    deliver_early(tmp_path / "site")
    made = StandInHarness(tmp_path / "site", install_standin(tmp_path / "standin"))
    yield made
    made.close()


@pytest.fixture(params=["slurm-standin", pytest.param("slurm", marks=pytest.mark.real_engine)])
def slurm_harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SlurmHarness]:
    if request.param == "slurm":
        made: SlurmHarness = RealSlurmHarness(tmp_path / "site", request.getfixturevalue("slurm"))
    else:
        made = request.getfixturevalue("standin_anywhere")
    yield made
    made.close()


@pytest.fixture(scope="session")
def moto_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of one moto for all tests of this process."""
    with moto_server(tmp_path_factory.mktemp("moto")) as port:
        yield port


@pytest.fixture
def firecrest(slurm: dict[str, str], tmp_path: Path) -> Iterator[FirecrestHarness]:
    """A firecREST over a real Slurm."""
    made = FirecrestHarness(tmp_path / "far", slurm)
    yield made
    made.close()


REAL = [pytest.param(name, marks=pytest.mark.real_engine) for name in ("slurm", "firecrest", "unicore")]


@pytest.fixture(params=["sim-batch", "slurm-standin", *REAL])
def delegated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An engine whose system has a queue of its own: one test for each kind."""
    made: Any
    if request.param == "sim-batch":
        made = SimBatchHarness()
    elif request.param == "slurm-standin":
        made = request.getfixturevalue("standin_anywhere")
    elif request.param == "firecrest":
        made = FirecrestHarness(tmp_path / "far", request.getfixturevalue("slurm"))
    elif request.param == "unicore":
        made = UnicoreHarness(tmp_path / "far", request.getfixturevalue("slurm"))
    else:
        made = RealSlurmHarness(tmp_path / "site", request.getfixturevalue("slurm"))
    yield made
    made.close()


@contextmanager
def _store(request: pytest.FixtureRequest, directory: Path) -> Iterator[Store]:
    if request.param in FAKES:
        yield FAKES[request.param]()
        return
    with _database(request, directory) as url, closing(open_store(url)) as opened:
        yield opened


@contextmanager
def _database(request: pytest.FixtureRequest, directory: Path) -> Iterator[str]:
    if request.param == SQLITE:
        path = directory / "tarmac.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server: Server = request.getfixturevalue("postgres")
    url = server.create(template=request.getfixturevalue("postgres_template"))
    yield url
    server.drop(url)

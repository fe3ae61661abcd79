"""What sites keep of runs, as people see it: fetched when asked for, and by itself; removed with a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest

from actors import ADA
from histories import new_run, step
from scratch_store import ScratchStore
from tarmac.artifacts.versions.blobs import DirectoryBlobs
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.artifacts.versions.manifest import Manifest, Version, to_bytes, versions
from tarmac.engines.hosts.host import HostStoreFiles, local_host
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.abilities import StoreFiles
from tarmac.model.errors import NotFound, Unavailable
from tarmac.model.lifecycle import RunEvent
from tarmac.model.run import Run
from tarmac.model.search import TrialPlace
from tarmac.model.spec import Target
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.site_artifacts import SiteArtifacts

SITE = Target(cluster="site")
BOUND_S = 30.0


class SiteFiles:
    """The files of the store at the site. While `down`, it cannot be reached; while not `free`, it hangs."""

    def __init__(self, root: Path) -> None:
        self._files = HostStoreFiles(local_host(root), root / "artifacts")
        self.down = ""
        self.free = Event()
        self.free.set()
        self.calls = 0

    def _call(self) -> None:
        self.calls += 1
        assert self.free.wait(BOUND_S)
        if self.down:
            raise Unavailable(self.down)

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        self._call()
        return self._files.read(name, offset=offset, limit=limit)

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        self._call()
        self._files.write(name, begin, content, last=last)

    def listing(self, prefix: str) -> Sequence[tuple[str, int, float]]:
        self._call()
        return self._files.listing(prefix)

    def remove(self, names: Sequence[str]) -> None:
        self._call()
        self._files.remove(names)


class Keeper:
    """An engine whose nodes keep artifacts at the site."""

    def __init__(self, files: StoreFiles, of_users: Mapping[str, StoreFiles]) -> None:
        self._files = files
        self._of_users = of_users

    def artifact_files(self, system_user: str | None = None) -> StoreFiles | None:
        return self._files if system_user is None else self._of_users.get(system_user)


class Kept:
    """A server with a run `r1` on the cluster `site`, and what is kept there."""

    def __init__(self, root: Path, *, answer_s: float = BOUND_S) -> None:
        self.store = ScratchStore()
        self.catalog = Catalog(str(root / "near"))
        self.catalog.begin(root / "marker")
        self.files = SiteFiles(root / "site")
        self.of_users: dict[str, StoreFiles] = {}
        self.far = DirectoryBlobs(root / "site/artifacts")
        self.sites = SiteArtifacts(
            self.catalog,
            self.store,
            engines=lambda: {"site": Keeper(self.files, self.of_users)},
            keep_versions=2,
            look_s=0.01,
            answer_s=answer_s,
        )
        rules = Rules(versions=2, days=None)
        self.service = ArtifactService(
            self.catalog, self.store, VirtualClock(1.0), rules, marker=root / "marker", sites=self.sites
        )
        self.store.create_runs([new_run("r1", name="digits", target=SITE)])
        self.sites.send(self.files, "r1", ())

    def keep(self, *numbers: int, run: str = "r1") -> None:
        """Versions that nodes make at the site."""
        for number in numbers:
            version = Version(run_id=run, kind="checkpoint", rank=0, number=number)
            self.far.put(version.name, to_bytes(Manifest(version, 1, 1.0, 1.0, ())))

    def run(self, run_id: str = "r1") -> Run:
        found = self.store.run(run_id)
        assert found is not None
        return found

    def listed(self, run_id: str = "r1") -> list[int]:
        """The numbers of the versions of a run, as a list shows them."""
        return [item.version.number for item in self.service.versions(ADA, self.run(run_id))]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.files.free.set()
    made.sites.stop()


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not seen():
        assert time.monotonic() < deadline
        Event().wait(0.01)


def test_a_list_of_a_run_has_what_its_site_keeps(kept: Kept) -> None:
    assert kept.listed() == []
    kept.keep(1)
    assert kept.listed() == [1]


def test_the_newest_are_fetched_as_many_as_are_kept_here_and_of_trials_all(kept: Kept) -> None:
    kept.keep(1, 2, 3, 4)
    assert kept.listed() == [3, 4]
    trial = TrialPlace(experiment="e1", number=1, metric="loss")
    kept.store.create_runs([new_run("r2", target=SITE, trial=trial)])
    kept.keep(1, 2, 3, 4, run="r2")
    assert kept.listed("r2") == [1, 2, 3, 4]


def test_n16_the_store_of_a_system_user_counts_for_runs_of_that_user_alone(
    kept: Kept, tmp_path: Path
) -> None:
    """N16: a user can write any version into the own store, and changes no run of another user by that."""
    kept.of_users["bob"] = SiteFiles(tmp_path / "bob")
    kept.store.create_runs([new_run("r2", target=SITE, system_user="bob")])
    kept.keep(1, run="r2")  # into the store of the server's account
    far = DirectoryBlobs(tmp_path / "bob/artifacts")
    for run_id, number in (("r1", 9), ("r2", 2)):
        version = Version(run_id=run_id, kind="checkpoint", rank=0, number=number)
        far.put(version.name, to_bytes(Manifest(version, 1, 1.0, 1.0, ())))
    assert kept.listed("r2") == [2]
    assert kept.listed() == []
    assert kept.sites.fetch_all("site") == ""
    assert kept.listed() == []
    kept.sites.remove(kept.run("r2"))
    assert not list(far.pieces("manifests/r2"))


@pytest.mark.parametrize("reference", ["r1.checkpoint.7", "r1.checkpoint", "digits", "r1"])
def test_a_version_is_fetched_when_somebody_names_it(kept: Kept, reference: str) -> None:
    kept.keep(7)
    assert kept.service.find(None, reference).id == "r1.checkpoint.7"


def test_what_is_here_is_found_without_the_site(kept: Kept) -> None:
    kept.keep(7)
    kept.service.find(None, "r1.checkpoint.7")
    kept.files.down = "login: Connection refused"
    calls = kept.files.calls
    assert kept.service.find(None, "r1.checkpoint.7").number == 7
    assert kept.files.calls == calls
    assert kept.service.find(None, "digits").number == 7
    assert kept.listed() == [7]


@pytest.mark.parametrize("reference", ["r1.checkpoint.7", "digits"])
def test_an_error_says_why_it_is_not_here(kept: Kept, reference: str) -> None:
    kept.keep(7)
    kept.files.down = "login: Connection refused"
    with pytest.raises(NotFound) as failure:
        kept.service.find(None, reference)
    assert failure.value.hint == (
        "what cluster site keeps of digits is not all here yet: login: Connection refused"
    )


def test_a_site_that_hangs_holds_nobody_up_for_long(tmp_path: Path) -> None:
    kept = Kept(tmp_path, answer_s=0.05)
    kept.keep(7)
    kept.files.free.clear()
    with pytest.raises(NotFound) as failure:
        kept.service.find(None, "digits")
    assert failure.value.hint is not None
    assert failure.value.hint.endswith("it is being fetched")
    missing: list[str] = []
    assert kept.service.versions(ADA, kept.run(), on_missing=missing.append) == []
    assert missing == ["what cluster site keeps of digits is not all here yet: it is being fetched"]
    kept.files.free.set()
    until(lambda: kept.listed() == [7])


def test_an_ended_run_is_asked_for_once(kept: Kept) -> None:
    kept.keep(1)
    assert kept.store.apply([step(kept.run(), RunEvent.STOP_REQUESTED)]) == [True]
    assert kept.listed() == [1]
    calls = kept.files.calls
    assert kept.listed() == [1]
    assert kept.files.calls == calls


def test_before_a_cluster_goes_what_it_keeps_is_fetched_or_said_to_stay(kept: Kept) -> None:
    kept.keep(1)
    assert kept.service.fetch_all(ADA, "site") == []
    assert [version.number for version in versions(kept.catalog.blobs, "r1")] == [1]
    assert kept.service.fetch_all(ADA, "elsewhere") == []
    kept.files.down = "login: Connection refused"
    (warning,) = kept.service.fetch_all(ADA, "site")
    assert "at its site are here: login: Connection refused. They stay there" in warning


def test_a_run_elsewhere_asks_no_site(kept: Kept) -> None:
    kept.store.create_runs([new_run("r3", target=Target(cluster="other")), new_run("r4")])
    calls = kept.files.calls
    assert kept.listed("r3") == kept.listed("r4") == []
    assert kept.files.calls == calls


def test_what_was_kept_while_no_server_was_there_is_fetched_when_one_starts(kept: Kept) -> None:
    kept.keep(5)
    kept.sites.start()
    until(lambda: [version.number for version in versions(kept.catalog.blobs, "r1")] == [5])


def test_what_is_older_than_is_kept_here_is_removed_there_unfetched(kept: Kept) -> None:
    kept.keep(1, 2, 3)
    kept.sites.start()
    until(lambda: [version.number for version in versions(kept.far)] == [2, 3])
    assert kept.listed() == [2, 3]


def test_what_nobody_knows_here_stays_there(kept: Kept) -> None:
    kept.keep(1, 2, 3, run="r9")
    kept.keep(1)
    kept.sites.start()
    until(lambda: len(versions(kept.catalog.blobs, "r1")) == 1)
    assert [version.number for version in versions(kept.far, "r9")] == [1, 2, 3]
    assert versions(kept.catalog.blobs, "r9") == []


def test_a_damaged_version_holds_up_no_other(kept: Kept) -> None:
    kept.keep(1, 2)
    broken = Version(run_id="r1", kind="checkpoint", rank=0, number=2)
    kept.far.put(broken.name, b"{}")
    assert kept.listed() == [1]


def test_a_run_is_removed_at_its_site_as_well(kept: Kept) -> None:
    kept.keep(1)
    kept.listed()
    kept.sites.remove(kept.run())
    assert versions(kept.far) == []
    kept.files.down = "login: Connection refused"
    with pytest.raises(Unavailable):
        kept.sites.remove(kept.run())

"""Who may write into the store through the server: the live attempt of a run, with its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from histories import attempt_of, new_run, placed, step
from scratch_store import ScratchStore
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.artifacts.versions.store_server import Grant
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.lifecycle import AttemptState, RunEvent
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.site_artifacts import SiteArtifacts

NOW = 1_700_000_000.0
INPUTS = ("r9.checkpoint.3",)


@pytest.fixture
def store() -> ScratchStore:
    """One with a run r1 whose attempt 1 is live."""
    made = ScratchStore()
    (run,) = made.create_runs([new_run("r1", input_artifacts=INPUTS)])
    assert made.apply([placed(run)]) == [True]
    return made


def service(store: ScratchStore, root: Path) -> ArtifactService:
    catalog = Catalog(str(root / "artifacts"))
    sites = SiteArtifacts(catalog, store, engines=dict, keep_versions=3)
    rules = Rules(versions=3, days=None)
    return ArtifactService(catalog, store, VirtualClock(NOW), rules, marker=root / "marker", sites=sites)


def current(store: ScratchStore) -> Run:
    run = store.run("r1")
    assert run is not None
    return run


def test_the_live_attempt_may_write_and_read_its_inputs(store: ScratchStore, tmp_path: Path) -> None:
    found = service(store, tmp_path).find_grant("r1.1", "token-1")
    assert found == Grant(run_id="r1", number=1, inputs=INPUTS)


NOBODY = [
    ("r1.1", "token-2"),
    ("r1.1", ""),
    ("r1.2", "token-1"),
    ("r2.1", "token-1"),
    ("r1", "token-1"),
    ("", ""),
]


@pytest.mark.parametrize(("attempt_id", "token"), NOBODY)
def test_nobody_else_may(store: ScratchStore, tmp_path: Path, attempt_id: str, token: str) -> None:
    assert service(store, tmp_path).find_grant(attempt_id, token) is None


def test_an_attempt_that_the_server_has_given_up_may_no_more(store: ScratchStore, tmp_path: Path) -> None:
    run = current(store)
    lost = attempt_of(run, state=AttemptState.ENDED, outcome=Outcome.LOST, ended_at=101.0)
    assert store.apply([step(run, RunEvent.FAULTED, attempt=lost)]) == [True]
    grants = service(store, tmp_path)
    assert grants.find_grant("r1.1", "token-1") is None
    assert store.apply([placed(current(store), 2)]) == [True]
    assert grants.find_grant("r1.1", "token-1") is None
    assert grants.find_grant("r1.2", "token-2") == Grant(run_id="r1", number=2, inputs=INPUTS)

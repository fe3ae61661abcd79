"""The intake: what arrives together is committed together, and nobody pays for another's mistake."""

from __future__ import annotations

import asyncio

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_engine import SimEngine
from simulated import CountingIds, InstantCode, nodes
from tarmac.api.submit_operations import SubmissionBody
from tarmac.control.admission import Accepted
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.errors import InvalidInput, NeverFits, Refused, StorageFull, TarmacError
from tarmac.server.http.auth import Caller
from tarmac.server.routes.submitting import (
    BATCH_LIMIT,
    BatchSubmitter,
    submit_each,
    submit_together,
)
from tarmac.server.submitting.submissions import Draft

CALLER = Caller(actor=ADA, local=True)
WRONG = Draft(caller=CALLER, body=SubmissionBody(source="slotz: 1"))


@pytest.fixture
def store() -> ScratchStore:
    return ScratchStore()


@pytest.fixture
def plane(store: ScratchStore) -> ControlPlane:
    clock = VirtualClock(1000.0)
    engine = SimEngine(clock, nodes(1, 8))
    return ControlPlane(
        ControlState(
            store=store,
            engine=engine,
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
        ),
    )


def draft(command: str = "true", *, key: str | None = None, slots: int | None = None) -> Draft:
    overrides = {} if slots is None else {"slots": slots}
    body = SubmissionBody(source=f"command: {command}\n", overrides=overrides, idempotency_key=key)
    return Draft(caller=CALLER, body=body)


def test_what_arrives_during_a_transaction_shares_the_next(plane: ControlPlane, store: ScratchStore) -> None:
    async def arrive() -> list[Accepted]:
        submitter = BatchSubmitter(plane)
        return await asyncio.gather(*(submitter.enter(draft(f"echo {number}")) for number in range(50)))

    entered = asyncio.run(arrive())
    assert len({item.run.id for item in entered}) == 50
    assert [item.run.spec.source for item in entered] == [f"command: echo {n}\n" for n in range(50)]
    assert store.writes <= 2


def test_a_flood_is_taken_in_several_transactions(plane: ControlPlane, store: ScratchStore) -> None:
    async def arrive() -> None:
        submitter = BatchSubmitter(plane)
        await asyncio.gather(*(submitter.enter(draft()) for _ in range(2 * BATCH_LIMIT + 1)))

    asyncio.run(arrive())
    assert store.writes >= 3


def test_a_client_that_goes_away_takes_nobody_along(plane: ControlPlane) -> None:
    async def arrive() -> Accepted:
        submitter = BatchSubmitter(plane)
        leaving = asyncio.create_task(submitter.enter(draft("echo one")))
        staying = asyncio.create_task(submitter.enter(draft("echo two")))
        await asyncio.wait((leaving,), timeout=0)
        leaving.cancel()
        return await staying

    assert asyncio.run(arrive()).run.spec.source == "command: echo two\n"


def test_mistakes_are_answered_one_by_one(plane: ControlPlane, store: ScratchStore) -> None:
    results = submit_each(
        [
            draft(),
            WRONG,
            draft(slots=900),
            draft("echo last"),
        ],
        plane,
    )
    assert [type(result) for result in results] == [Accepted, InvalidInput, NeverFits, Accepted]
    assert len(list(store.live_runs())) == 2


def test_a_key_that_clashes_makes_no_other_run_twice(plane: ControlPlane, store: ScratchStore) -> None:
    """The plane refuses after the commit; what is submitted again must not be there twice."""
    submit_each([draft("echo one", key="k")], plane)
    results = submit_each(
        [draft("echo keyless"), draft("echo other", key="k"), draft("echo keyed", key="l")], plane
    )
    assert [type(result) for result in results] == [Accepted, Refused, Accepted]
    assert len(list(store.live_runs())) == 3


def test_a_full_disk_is_everybodys(plane: ControlPlane, store: ScratchStore) -> None:
    store.fill_disk()
    results = submit_each([draft(), WRONG, draft()], plane)
    assert [type(result) for result in results] == [StorageFull, InvalidInput, StorageFull]
    store.fill_disk(False)
    assert list(store.live_runs()) == []


def test_those_that_belong_together_are_one_transaction(plane: ControlPlane, store: ScratchStore) -> None:
    with pytest.raises(TarmacError):
        submit_together([draft(), draft(slots=900)], plane)
    assert list(store.live_runs()) == []
    assert len(submit_together([draft(), draft()], plane)) == 2
    assert store.writes == 1

"""What every provider promises (model/burst/provider.py): the fake, commands of an administrator, and EC2.

The books of the account are the judge: they have everything that existed, whatever the adapter was answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fake_provider import CREATE, DELETE, LIST, PRICE
from provider_harness import OWNER, RUN, Ec2Harness, FakeHarness, Harness, MachinesHarness
from tarmac.model.burst.provider import (
    AnswerLost,
    Refusal,
    RentRefused,
    ThingKind,
    ThingState,
)
from tarmac.model.errors import Unavailable

EC2 = pytest.param("ec2", marks=[pytest.mark.heavy, pytest.mark.xdist_group("moto")])


@pytest.fixture(params=["fake", "machines", EC2])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """A provider: one test for each kind."""
    made: Harness
    if request.param == "ec2":
        made = Ec2Harness(request.getfixturevalue("moto_port"))
    else:
        made = FakeHarness() if request.param == "fake" else MachinesHarness(tmp_path)
    yield made
    made.close()


# --- the life of machines -----------------------------------------------------------------------------


def test_machines_live_from_their_creation_to_their_deletion(harness: Harness) -> None:
    harness.knobs.pending_s, harness.knobs.leaving_s = 30.0, 20.0
    made = harness.provider.create(harness.request())
    assert [each.state for each in made] == [ThingState.PENDING] * 2
    assert {each.id for each in harness.machines()} == {each.id for each in made}

    harness.advance(31.0)
    for each in harness.machines():
        assert each.state is ThingState.RUNNING
        assert (each.owner, each.request, each.run) == (OWNER, "request-1", RUN)
        assert each.address
        assert each.inner_address
        assert each.since is not None

    harness.provider.delete(harness.machines())
    assert [each.state for each in harness.machines()] == [ThingState.LEAVING] * 2
    assert harness.books.left()

    harness.advance(21.0)
    assert [each for each in harness.ours() if each.state is not ThingState.GONE] == []
    assert harness.books.left() == []


def test_disks_have_the_tags_of_their_machines_and_end_with_them(harness: Harness) -> None:
    harness.provider.create(harness.request())
    disks = [each for each in harness.ours() if each.kind is ThingKind.DISK]
    assert [(each.request, each.run) for each in disks] == [("request-1", RUN)] * 2
    for each in harness.machines():
        harness.shut_down(each.id)
    assert [each for each in harness.ours() if each.state is not ThingState.GONE] == []
    assert harness.books.left() == []


def test_a_machine_that_shuts_itself_down_is_gone(harness: Harness) -> None:
    """By the provider's own means: nobody has to delete it."""
    first, second = harness.provider.create(harness.request())
    harness.shut_down(first.id)
    live = [each.id for each in harness.machines() if each.state is not ThingState.GONE]
    assert live == [second.id]
    assert [each.id for each in harness.books.left() if each.kind is ThingKind.MACHINE] == [second.id]


def test_a_new_machine_appears_late(harness: Harness) -> None:
    harness.knobs.visible_after_s = 40.0
    harness.provider.create(harness.request())
    assert harness.ours() == []
    harness.advance(41.0)
    assert len(harness.machines()) == 2


def test_a_machine_that_the_provider_takes_back_says_when(harness: Harness) -> None:
    made = harness.provider.create(harness.request(spot=True))
    harness.notice(made[0].id)
    notices = {each.id: each.notice_at for each in harness.machines()}
    assert notices == {made[0].id: pytest.approx(harness.now() + 120.0), made[1].id: None}
    harness.advance(121.0)
    live = [each.id for each in harness.machines() if each.state is not ThingState.GONE]
    assert live == [made[1].id]


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", list(Refusal))
def test_a_refusal_has_its_reason_and_no_effect(harness: Harness, refusal: Refusal) -> None:
    harness.knobs.refusals[harness.machine] = refusal
    with pytest.raises(RentRefused) as refused:
        harness.provider.create(harness.request())
    assert refused.value.refusal is refusal
    assert str(refused.value)
    assert list(harness.books) == []


def test_a_gang_is_created_whole_or_not_at_all(harness: Harness) -> None:
    harness.knobs.capacity[harness.machine] = 3
    with pytest.raises(RentRefused) as refused:
        harness.provider.create(harness.request(machines=4))
    assert refused.value.refusal is Refusal.NO_CAPACITY
    assert list(harness.books) == []
    assert len(harness.provider.create(harness.request("request-2", machines=3))) == 3


def test_wrong_credentials_are_denied_to_every_call(harness: Harness) -> None:
    made = harness.provider.create(harness.request())
    harness.knobs.denied = True
    for call in (
        harness.provider.list,
        lambda: harness.provider.create(harness.request("request-2")),
        lambda: harness.provider.delete(made),
        lambda: harness.provider.price(harness.shape(spot=True)),
    ):
        with pytest.raises(RentRefused) as refused:
            call()
        assert refused.value.refusal is Refusal.DENIED
    assert len(harness.books.of(request="request-1")) == len(harness.books.left()) == 4


# --- answers that do not come -------------------------------------------------------------------------


def test_the_machines_of_a_lost_answer_are_listed(harness: Harness) -> None:
    harness.lose(CREATE, after=True)
    with pytest.raises(AnswerLost):
        harness.provider.create(harness.request())
    assert [each.request for each in harness.machines()] == ["request-1"] * 2


def test_a_lost_request_leaves_nothing(harness: Harness) -> None:
    harness.lose(CREATE, after=False)
    with pytest.raises(AnswerLost):
        harness.provider.create(harness.request())
    assert harness.ours() == []
    assert list(harness.books) == []


def test_the_same_request_again_is_the_same_machines(harness: Harness) -> None:
    harness.lose(CREATE, after=True)
    with pytest.raises(AnswerLost):
        harness.provider.create(harness.request())
    again = harness.provider.create(harness.request())
    assert {each.id for each in again} == {each.id for each in harness.machines()}
    machines = [each for each in harness.books.left() if each.kind is ThingKind.MACHINE]
    assert len(machines) == 2


def test_the_same_request_from_several_threads_is_one(harness: Harness) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(harness.provider.create, [harness.request()] * 4))
    assert len({each.id for machines in made for each in machines}) == 2


def test_a_delete_whose_answer_is_lost_can_be_repeated(harness: Harness) -> None:
    made = harness.provider.create(harness.request())
    harness.lose(DELETE, after=True)
    with pytest.raises((AnswerLost, Unavailable)):
        harness.provider.delete(made)
    harness.provider.delete(made)
    assert harness.books.left() == []


def test_a_list_whose_answer_is_lost_can_be_repeated(harness: Harness) -> None:
    harness.provider.create(harness.request())
    harness.lose(LIST, after=True)
    with pytest.raises((AnswerLost, Unavailable)):
        harness.provider.list()
    assert len(harness.machines()) == 2


@pytest.mark.parametrize("operation", [CREATE, LIST, DELETE, PRICE])
def test_a_throttled_call_does_nothing_and_can_be_repeated(harness: Harness, operation: str) -> None:
    made = harness.provider.create(harness.request())
    calls = {
        CREATE: lambda: harness.provider.create(harness.request("request-2")),
        LIST: harness.provider.list,
        DELETE: lambda: harness.provider.delete(made),
        PRICE: lambda: harness.provider.price(harness.shape(spot=True)),
    }
    harness.throttle(operation)
    with pytest.raises(Unavailable):
        calls[operation]()
    assert len(harness.books.left()) == len(harness.books.of(request="request-1")) == 4
    calls[operation]()


def test_a_provider_that_is_down_does_nothing(harness: Harness) -> None:
    made = harness.provider.create(harness.request())
    harness.knobs.down = (harness.now(), harness.now() + 600.0)
    for call in (
        harness.provider.list,
        lambda: harness.provider.create(harness.request("request-2")),
        lambda: harness.provider.delete(made),
    ):
        with pytest.raises(Unavailable):
            call()
    harness.advance(601.0)
    assert len(harness.machines()) == 2


# --- deleting -----------------------------------------------------------------------------------------


def test_deleting_what_is_gone_is_no_error(harness: Harness) -> None:
    """The others of the same call are deleted."""
    first, second = harness.provider.create(harness.request())
    harness.shut_down(first.id)
    harness.provider.delete([first, second])
    harness.provider.delete([first, second])
    assert harness.books.left() == []


def test_a_delete_that_had_no_effect_can_be_repeated(harness: Harness) -> None:
    harness.knobs.deletes_ignored = 2
    made = harness.provider.create(harness.request())
    for _ in range(3):
        harness.provider.delete(made)
    assert harness.books.left() == []


def test_disks_and_addresses_can_be_deleted(harness: Harness) -> None:
    ids = {harness.stranger(kind, OWNER): kind for kind in (ThingKind.DISK, ThingKind.ADDRESS)}
    assert {each.id: each.kind for each in harness.ours()} == ids
    harness.provider.delete(harness.ours())
    assert harness.ours() == []
    assert harness.books.left() == []


def test_a_disk_in_use_ends_with_its_machine(harness: Harness) -> None:
    harness.provider.create(harness.request())
    things = harness.ours()
    assert len(things) == 4
    harness.provider.delete(sorted(things, key=lambda each: each.kind, reverse=True))
    harness.provider.delete(harness.ours())
    assert harness.books.left() == []


# --- accounts that are shared -------------------------------------------------------------------------


def test_things_of_others_are_listed_as_theirs(harness: Harness) -> None:
    """A deletion of ours leaves them alone."""
    theirs = {
        harness.stranger(kind, owner): owner for kind in ThingKind for owner in (None, "another-server")
    }
    harness.provider.create(harness.request())
    listed = {each.id: each.owner for each in harness.provider.list()}
    assert {name: owner for name, owner in listed.items() if owner != OWNER}.items() >= theirs.items()
    harness.provider.delete(harness.ours())
    assert theirs.keys() <= {each.id for each in harness.books.left()}
    assert [harness.books.entries[each].deletes for each in theirs] == [[]] * len(theirs)


# --- prices and checks --------------------------------------------------------------------------------


def test_the_price_of_a_spot_machine_is_published(harness: Harness) -> None:
    assert harness.provider.price(harness.shape(spot=True)) == pytest.approx(harness.price)


def test_an_examination_rents_nothing_and_names_what_fails(harness: Harness) -> None:
    findings = harness.provider.examine()
    assert [each.text for each in findings if not each.ok] == []
    assert list(harness.books) == []
    harness.knobs.denied = True
    assert [each for each in harness.provider.examine() if not each.ok]

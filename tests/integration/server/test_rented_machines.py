"""Providers, shapes, rentals and approvals over HTTP: what each command changes, and who may."""

from __future__ import annotations

import pytest

from fake_provider import refused
from served import MEMBER, OWNER, Served
from tarmac.client import Client
from tarmac.model.actor import ActorRole
from tarmac.model.burst.provider import Refusal
from tarmac.model.burst.shapes import Shape
from tarmac.model.codec import replace
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused
from tarmac.model.people.account import AccountSettings

BIG = Shape(
    id="lab-big",
    provider="lab",
    region="here",
    machine="big",
    slots=8,
    slot_type="h100",
    rate=12.5,
    rated_on="2026-11-01",
)
SMALL = replace(BIG, id="lab-small", machine="small", slots=4, rate=4.0, spot=True, credits=6.0)
TRAIN = "name: train\ncommand: train\nslots: h100:8\nmode: burst\ntime_limit: 2h\n"


@pytest.fixture
def client(plane: Served) -> Client:
    """The client of an administrator, with a provider and two shapes."""
    client = plane.client()
    client.add_provider("lab", "fake")
    client.set_shapes([BIG, SMALL])
    return client


def test_a_provider_is_added_once_it_has_answered(plane: Served) -> None:
    client = plane.client()
    plane.account.faults["list"].append(refused(Refusal.DENIED))
    with pytest.raises(InvalidInput, match="provider lab"):
        client.add_provider("lab", "fake")
    added = client.add_provider("lab", "fake")
    assert (added.name, added.kind, added.added_by, bool(added.owner)) == ("lab", "fake", OWNER, True)
    assert client.providers() == [added]
    with pytest.raises(Refused, match="there is a provider 'lab' already"):
        client.add_provider("lab", "fake")
    with pytest.raises(InvalidInput, match="no kind of provider 'fakes'") as unknown:
        client.add_provider("other", "fakes")
    assert "fake" in str(unknown.value.hint)
    assert all(finding.ok for finding in client.check_provider("lab"))
    assert client.remove_provider("lab") == added
    with pytest.raises(NotFound, match="no provider 'lab'"):
        client.check_provider("lab")


def test_shapes_are_stored_all_or_none_and_listed_with_their_stock(client: Client) -> None:
    """I13: ids, rates in money and credits with their date, and the stock found when last tried."""
    with pytest.raises(InvalidInput, match="no provider 'cloud'"):
        client.set_shapes([replace(BIG, id="new"), replace(BIG, id="far", provider="cloud")])
    big, small = client.shapes()
    assert (big.id, big.rate, big.credits_per_hour, big.rated_on, big.stock) == (
        *("lab-big", 12.5, 12.5, "2026-11-01"),
        None,
    )
    assert (small.id, small.rate, small.credits_per_hour, small.spot) == ("lab-small", 4.0, 6.0, True)
    client.set_shapes([replace(BIG, rate=13.0)], replacing="lab")
    assert [(each.id, each.rate) for each in client.shapes()] == [("lab-big", 13.0)]
    assert client.remove_shape("lab-big").rate == 13.0
    with pytest.raises(NotFound, match="no shape 'lab-big'"):
        client.remove_shape("lab-big")


@pytest.mark.parametrize("change", [{"rate": -1.0}, {"id": "Big"}, {"slots": 0}, {"rate": 1e7}])
def test_a_shape_out_of_bounds_is_refused(client: Client, change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=r"shapes\[0\]"):
        client.set_shapes([replace(BIG, **change)])  # type: ignore[arg-type]


def test_rates_are_those_that_the_provider_says_now(plane: Served, client: Client) -> None:
    plane.account.knobs.prices["small"] = 3.5
    assert {each.id: each.rate for each in client.refresh_shapes()} == {"lab-big": 12.5, "lab-small": 3.5}


def test_a_burst_run_waits_for_its_approval_and_rents_the_next_shape(plane: Served, client: Client) -> None:
    """I9, I13: the costs are known before; what was tried, and the stock, are known afterwards."""
    run = client.submit(TRAIN)
    assert [each.id for each in client.staged_runs()] == [run.id]
    assert client.run(run.id).staged
    offers = client.offers(run.id)
    assert [(each.shape.id, each.machines, each.rate, each.cost) for each in offers] == [
        ("lab-small", 2, 8.0, 16.0),
        ("lab-big", 1, 12.5, 25.0),
    ]
    plane.turn()
    assert client.rentals() == []
    approved = client.approve("train")
    assert (approved.run_id, approved.run_name, approved.approved) == (run.id, "train", OWNER)
    assert client.approve(run.id).id == approved.id, "a second approval changes nothing"
    assert client.staged_runs() == []
    assert not client.run(run.id).staged
    plane.account.knobs.capacity["small"] = 0
    for _ in range(4):
        plane.turn()
    first, second = client.rentals(run.id)
    assert (first.shape.id if first.shape else "", str(first.end), first.spent) == (
        *("lab-small", "no_capacity"),
        0.0,
    )
    assert second.shape is not None
    assert (second.shape.id, second.machines, second.open) == ("lab-big", 1, True)
    plane.clock.advance(1800.0)
    assert client.rentals("train")[-1].spent == pytest.approx(6.25)
    big, small = client.shapes()
    assert big.stock is not None
    assert small.stock is not None
    assert (big.stock.machines, small.stock.machines) == (1, 0)
    with pytest.raises(Refused, match="provider lab stays while its machines exist"):
        client.remove_provider("lab")


def test_strangers_are_listed_with_their_provider(plane: Served, client: Client) -> None:
    plane.account.stranger(owner="somebody")
    plane.advance(300.0)
    (found,) = client.strangers()
    assert found.id.startswith("lab/")
    assert found.owner == "somebody"


def test_members_approve_their_own_runs_and_change_no_provider_or_shape(
    plane: Served, client: Client
) -> None:
    client.set_user(OWNER)
    client.set_user(MEMBER, AccountSettings(role=ActorRole.MEMBER))
    member = plane.remote_client(client.add_token("test", user=MEMBER).text)
    for change in (
        lambda: member.add_provider("mine", "fake"),
        lambda: member.remove_provider("lab"),
        lambda: member.check_provider("lab"),
        lambda: member.set_shapes([BIG]),
        lambda: member.remove_shape("lab-big"),
        member.refresh_shapes,
        member.providers,
        member.strangers,
    ):
        with pytest.raises(Forbidden):
            change()
    other = client.submit(TRAIN.replace("train", "other"))
    with pytest.raises(Forbidden, match=f"{MEMBER} may not change runs of {OWNER}"):
        member.approve(other.id)
    own = member.submit(TRAIN)
    assert member.approve(own.id).approved == MEMBER
    assert client.approve(other.id).approved == OWNER


def test_a_run_of_another_mode_needs_no_approval(client: Client) -> None:
    run = client.submit("command: echo\n")
    with pytest.raises(Refused, match="needs no approval"):
        client.approve(run.id)
    assert client.staged_runs() == []

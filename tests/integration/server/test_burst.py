"""Burst runs over HTTP: refused without shapes, tried without renting, rehearsed; and what stays listed."""

from __future__ import annotations

import pytest

from served import ENDED_DAYS, HELLO, Served
from tarmac.cli.views.dryrun import short_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import Refused

BURST = f"mode: burst\n{HELLO}"
ISC = """\
isc_project_id = "p"
experiment_name = "big"
gpus = 48
compute_mode = "burst"
burst_shape_priority_list = ["gcp-us-central-h100-spot"]
command = "cd / && true"
"""
DAY_S = 86_400.0


@pytest.mark.parametrize("source", [BURST, ISC])
def test_a_burst_run_is_refused_where_nothing_can_be_rented(plane: Served, source: str) -> None:
    """I6, I13: refused with the reason, also dry; nothing is kept."""
    client = plane.client()
    for ask in (client.submit, client.dry_run):
        with pytest.raises(Refused, match="there are no shapes") as refused:
            ask(source)
        assert "--rehearse" in str(refused.value.hint)
    assert client.runs().runs == []


def shape(shape_id: str, slots: int, rate: float) -> Shape:
    """A kind of GPU machine."""
    return Shape(
        id=shape_id,
        provider="lab",
        region="here",
        machine=shape_id,
        slots=slots,
        slot_type="h100",
        rate=rate,
        rated_on="2026-11-01",
    )


def with_shapes(plane: Served) -> None:
    """Make three shapes known."""
    record = ProviderRecord(name="lab", kind="machines", owner="o")
    plane.store.rentals.put_provider(record)
    plane.store.rentals.put_shapes([shape("one", 1, 3.0), shape("eight", 8, 16.0), shape("six", 6, 15.0)])


def test_a_dry_run_lists_the_shapes_in_the_order_in_which_they_would_be_tried(plane: Served) -> None:
    """I9: those of the file in its order; all, the cheapest first, if none of them is known."""
    with_shapes(plane)
    client = plane.client()
    listed = ISC.replace('"gcp-us-central-h100-spot"', '"six", "nobody", "eight"')
    found = client.dry_run(listed, overrides={"time_limit": "10h"})
    assert (found.placement, found.reasons) == (None, ())
    assert [(each.shape.id, each.machines, each.rate, each.cost) for each in found.offers] == [
        ("six", 8, 120.0, 1200.0),
        ("eight", 6, 96.0, 960.0),
    ]
    text = short_text(found, Terminal())
    assert "can never start" not in text
    assert "eight  here    8 h100         6   96.00 USD    960.00 USD" in text
    everything = client.dry_run(ISC)
    assert [(each.shape.id, each.cost) for each in everything.offers] == [
        ("eight", None),
        ("six", None),
        ("one", None),
    ]
    assert client.runs().runs == [], "nothing is kept"


def test_a_burst_run_with_too_many_gpus_is_refused_dry_too(plane: Served) -> None:
    """I13: more than 48, in every dialect."""
    with_shapes(plane)
    client = plane.client()
    for ask in (client.submit, client.dry_run):
        with pytest.raises(Refused, match="at most 48 GPUs, not 49"):
            ask("mode: burst\nslots: 49\ncommand: echo\n")


def test_a_batch_run_that_waits_says_when_it_rents_and_what(plane: Served) -> None:
    """The rule of a queue that rents, in `why` and in a dry run."""
    with_shapes(plane)
    client = plane.client()
    source = (
        "name: next\nslots: 8\ncommand: echo\nburst: {when: wait > 2h, below: 20/h, shapes: [six, eight]}\n"
    )
    client.submit("name: first\nslots: 8\ncommand: sleep 1000\n")
    plane.turn()
    dry = client.dry_run(source)
    assert dry.placement is not None, "it would have its nodes later"
    assert [(each.shape.id, bool(each.refused)) for each in dry.offers] == [("six", True), ("eight", False)]
    run = client.submit(source)
    plane.turn()
    why = client.why(run.id)
    assert why.headline.startswith("queued")
    assert why.unblocked_by.endswith("It rents machines in about 2 h, if it still waits then.")
    assert [each.shape.id for each in why.offers] == ["six", "eight"]
    assert "more than the run's limit of 20" in why.offers[0].refused
    plane.advance(3600.0)
    assert "in about 60 min" in client.why(run.id).unblocked_by
    dear = client.submit(source.replace("20/h", "5/h"))
    assert client.why(dear.id).unblocked_by.endswith("none may be rented for it now.")
    assert client.why(client.submit("name: plain\nslots: 8\ncommand: echo\n").id).offers == ()


@pytest.mark.parametrize("source", [BURST, ISC])
def test_a_burst_run_is_rehearsed_without_interruption(plane: Served, source: str) -> None:
    """I13: with a cluster of its own it runs until it ends; no turn and no block is set."""
    client = plane.client()
    run = client.submit(source, overrides={"rehearse": "8x6"})
    plane.turn()
    (attempt,) = client.attempts(run.id)
    assert attempt.cluster == f"rehearsal-{run.id}"
    assert attempt.allotted_s is None
    plane.advance(3 * 3600.0)
    record = client.run(run.id)
    assert (record.mode, record.preemptions, record.attempt) == ("burst", 0, 1)


def test_a_run_that_ended_stays_listed_for_fourteen_days(plane: Served) -> None:
    """M11: longer ago than the setting, it is left out of a plain list, and never deleted."""
    assert ENDED_DAYS == 14
    client = plane.client()
    run = client.submit(HELLO)
    client.stop(run.id)
    plane.clock.advance(14 * DAY_S - 60)
    assert [shown.id for shown in client.runs().runs] == [run.id]
    plane.clock.advance(120)
    assert client.runs().runs == []
    assert [shown.id for shown in client.runs(everything=True).runs] == [run.id]

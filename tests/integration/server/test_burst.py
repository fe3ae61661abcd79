"""Burst runs over HTTP: refused, unless they bring a cluster of their own; and what stays listed."""

from __future__ import annotations

import pytest

from served import ENDED_DAYS, HELLO, Served
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
def test_a_burst_run_needs_a_cluster_that_this_version_cannot_rent(plane: Served, source: str) -> None:
    """I6, I13: refused with the reason, also dry; nothing is kept."""
    client = plane.client()
    for ask in (client.submit, client.dry_run):
        with pytest.raises(Refused, match="provisions no cloud clusters") as refused:
            ask(source)
        assert "--rehearse" in str(refused.value.hint)
    assert client.runs().runs == []


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

"""What a cluster has given to an attempt: when its workers are to leave, to be over before their job."""

from __future__ import annotations

import pytest

from tarmac.node.attempt.document import END_MARGIN_S, GrantedNode, read_granted

DAY_S = 86_400.0


def leave_s(left_s: float, grace_s: float) -> float | None:
    return GrantedNode(0, ("n1",), ("n1",), None, 1000.0 + left_s).leave_s(grace_s, 1000.0)


def test_workers_leave_so_long_before_the_end_that_their_grace_and_a_margin_fit() -> None:
    assert leave_s(DAY_S, 30.0) == DAY_S - 30.0 - END_MARGIN_S
    assert leave_s(60.0, 5.0) == 60.0 - 5.0 - 6.0, "of a short job, a tenth"


def test_a_grace_longer_than_the_job_leaves_half_of_it_for_work() -> None:
    assert leave_s(60.0, 3600.0) == 30.0
    assert leave_s(-5.0, 30.0) == 0.0


def test_a_job_without_an_end_asks_nobody_to_leave() -> None:
    assert GrantedNode(0, ("n1",), ("n1",)).leave_s(30.0, 1000.0) is None


@pytest.mark.parametrize(("text", "ends_at"), [("", None), ("1795366800", 1795366800.0)])
def test_the_end_is_read(text: str, ends_at: float | None) -> None:
    assert read_granted("0", "n1", text).ends_at == ends_at


@pytest.mark.parametrize("text", ["soon", "-5", "1e9", "9" * 20, "1 2"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time of an end"):
        read_granted("0", "n1", text)

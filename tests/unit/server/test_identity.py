"""Run ids and tokens: sortable, unique, safe in names."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.server.run_ids import RandomIds
from tarmac.server.wiring import SystemClock

YEAR_3000 = 32_500_000_000.0


@given(st.lists(st.floats(min_value=0, max_value=YEAR_3000), min_size=1, max_size=50))
def test_ids_of_one_server_are_unique_and_grow_in_the_order_they_were_made(times: list[float]) -> None:
    ids = RandomIds()
    made = [ids.run_id(now) for now in times]
    assert made == sorted(set(made))
    assert all(re.fullmatch(r"r[0-9a-hjkmnp-tv-z]{12}", item) for item in made)


@given(st.floats(min_value=0, max_value=YEAR_3000 - 1), st.floats(min_value=0.002, max_value=1e6))
def test_ids_sort_by_time_across_servers(now: float, later_s: float) -> None:
    assert RandomIds().run_id(now) < RandomIds().run_id(now + later_s)


def test_tokens_are_long_and_different() -> None:
    ids = RandomIds()
    tokens = {ids.token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32


def test_the_clock_is_the_machines() -> None:
    assert abs(SystemClock().now() - time.time()) < 5


def test_ids_go_on_from_the_newest_there_is_when_the_clock_was_set_back() -> None:
    before = RandomIds().run_id(2_000_000_000.0)
    after = RandomIds(newest=before)
    made = [after.run_id(1_000_000_000.0) for _ in range(100)]
    assert [before, *made] == sorted({before, *made})
    assert RandomIds(newest=made[-1]).run_id(2_100_000_000.0) > made[-1]


@pytest.mark.parametrize("odd", ["", "r", "dry-run", "r" + "é" * 12])
def test_an_odd_id_is_no_beginning(odd: str) -> None:
    assert RandomIds(newest=odd).run_id(1_000_000_000.0) < RandomIds().run_id(1_000_000_001.0)

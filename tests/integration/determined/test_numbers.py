"""Whole numbers in requests to the gateway: those that have no room in 64 bits are refused."""

from __future__ import annotations

import pytest

from determined_calls import DeterminedCalls

LISTS = ("experiments", "job-queues-v2", "agents", "resource-pools", "workspaces")


@pytest.mark.parametrize("number", ["9223372036854775808", "99999999999999999999", "-9223372036854775809"])
@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("path", LISTS)
def test_a_page_has_no_number_beyond_64_bits(
    calls: DeterminedCalls, path: str, name: str, number: str
) -> None:
    status, answer = calls.get(f"/api/v1/{path}", **{name: number})
    assert status == 400
    assert f"{name}: a whole number of 64 bits is expected" in answer["message"]
    assert calls.get(f"/api/v1/{path}", **{name: "9223372036854775807"})[0] == 200

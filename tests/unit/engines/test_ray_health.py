"""When a node of a Ray takes nothing new, and when it does again: from facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.engines.ray.node import ahead_s, problem

GIB = 1 << 30
WELL: dict[str, Any] = {
    "memory_bytes": 64 * GIB,
    "free_memory_bytes": 32 * GIB,
    "at": 100.0,
    "gpu_problems": [],
}


def found(before: str = "", **facts: Any) -> str:
    return problem({**WELL, **facts}, sent_at=99.0, received_at=101.0, before=before)


def test_a_node_that_is_well_has_no_problem() -> None:
    assert found() == ""


def test_memory_that_is_nearly_full_is_said_until_twice_as_much_is_free() -> None:
    full = found(free_memory_bytes=GIB)
    assert full == "its memory is nearly full: 1.0 of 64.0 GiB free"
    assert found(before=full, free_memory_bytes=2 * GIB) != ""
    assert found(free_memory_bytes=2 * GIB) == ""
    assert found(before=full, free_memory_bytes=3 * GIB) == ""


@pytest.mark.parametrize(("whole", "least"), [(4 * GIB, GIB // 4), (4096 * GIB, 2 * GIB)])
def test_small_and_large_machines_have_bounds(whole: int, least: int) -> None:
    assert found(memory_bytes=whole, free_memory_bytes=least) == ""
    assert found(memory_bytes=whole, free_memory_bytes=least - 1) != ""


def test_a_clock_that_is_far_off_is_said() -> None:
    assert found(at=101.0 + 30.0) == ""
    assert found(at=101.0 + 45.0) == "its clock is 45 s ahead of that of the server"
    assert found(at=99.0 - 45.0) == "its clock is 45 s behind that of the server"


def test_how_long_an_answer_takes_is_no_offset_of_the_clock() -> None:
    assert ahead_s(60.0, sent_at=0.0, received_at=120.0) == 0.0
    assert ahead_s(121.0, sent_at=0.0, received_at=120.0) == 1.0
    assert ahead_s(-2.0, sent_at=0.0, received_at=120.0) == -2.0


def test_problems_of_gpus_are_said_a_few_of_them() -> None:
    assert found(gpu_problems=["GPU 1: it is lost"]) == "GPU 1: it is lost"
    many = found(free_memory_bytes=GIB, gpu_problems=[f"GPU {n}: it is lost" for n in range(8)])
    assert many.endswith("GPU 0: it is lost; GPU 1: it is lost; and 6 more")

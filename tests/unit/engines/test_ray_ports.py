"""Ports of a node that are asked for several at once."""

from __future__ import annotations

from collections.abc import Collection

from tarmac.engines.ray.ports import AT_ONCE, FreePorts

LONG_S = 3600.0


class Node:
    """Finds ports from 20,000 on; `questions` are those that it was asked."""

    def __init__(self) -> None:
        self.questions: list[Collection[int]] = []
        self._next = 20_000

    def find(self, taken: Collection[int], count: int) -> list[int]:
        self.questions.append(taken)
        found = range(self._next, self._next + count)
        self._next += count
        return list(found)


def test_each_is_given_once_and_the_node_is_asked_now_and_then() -> None:
    node = Node()
    free = FreePorts(node.find, fresh_s=LONG_S)
    assert len({free.take(()) for _ in range(2 * AT_ONCE)}) == 2 * AT_ONCE
    assert len(node.questions) == 2


def test_what_was_taken_meanwhile_is_not_given() -> None:
    node = Node()
    free = FreePorts(node.find, fresh_s=LONG_S)
    first = free.take(())
    taken = frozenset(range(20_000, 20_000 + AT_ONCE))
    assert first in taken
    assert free.take(taken) not in taken
    assert node.questions == [(), taken]


def test_what_was_free_a_while_ago_is_asked_for_anew() -> None:
    node = Node()
    free = FreePorts(node.find, fresh_s=0.0)
    assert [free.take(()) for _ in range(3)] == [20_000 + AT_ONCE * number - 1 for number in (1, 2, 3)]

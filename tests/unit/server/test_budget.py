"""Connections within a budget: whose goes when it is spent."""

from __future__ import annotations

from typing import cast

import pytest

from tarmac.server.http.connections import Budget, LimitedProtocol


class Connection:
    """As much of a connection as a budget knows."""

    def __init__(self, peer: object) -> None:
        self.peer = peer
        self.aborted = False

    def drop(self) -> None:
        self.aborted = True


def of(connection: Connection) -> LimitedProtocol:
    return cast(LimitedProtocol, connection)


def opened(budget: Budget, peer: object, *, busy: bool = False) -> Connection:
    connection = Connection(peer)
    assert budget.open(of(connection))
    if busy:
        budget.busy(of(connection))
    return connection


def test_a_peer_beyond_its_half_loses_its_own_that_is_idle_longest() -> None:
    budget = Budget(8)
    honest, *crowd = [opened(budget, peer) for peer in (1, 2, 2, 2, 2, 2)]
    assert [each.aborted for each in crowd] == [True, False, False, False, False]
    budget.busy(of(crowd[1]))
    opened(budget, 2)
    assert [each.aborted for each in crowd] == [True, False, True, False, False]
    assert not honest.aborted


def test_when_all_is_spent_the_peer_with_most_makes_room() -> None:
    budget = Budget(8)
    few = [opened(budget, peer) for peer in (1, 2, 3, 3)]
    many = [opened(budget, 4) for _ in range(4)]
    opened(budget, 5)
    assert [each.aborted for each in (*few, *many)] == [False] * 4 + [True] + [False] * 3


@pytest.mark.parametrize("peer", [1, 5])
def test_without_an_idle_connection_a_new_one_is_refused(peer: int) -> None:
    budget = Budget(4)
    busy = [opened(budget, peer, busy=True) for peer in (1, 1, 2, 3)]
    new = Connection(peer)
    assert not budget.open(of(new))
    budget.close(of(new))
    assert not any(each.aborted for each in busy)
    budget.idle(of(busy[0]))
    assert budget.open(of(new))
    assert busy[0].aborted


def test_what_was_closed_counts_no_more() -> None:
    budget = Budget(4)
    for _ in range(10):
        connection = opened(budget, 1, busy=True)
        budget.close(of(connection))
        budget.close(of(connection))
        budget.idle(of(connection))
    assert not any(opened(budget, 1, busy=True).aborted for _ in range(2))

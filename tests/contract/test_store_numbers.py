"""Numbers of things: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import cast

from tarmac.model.ports import Store
from tarmac.model.run_records import NumberKind, Numbers
from tarmac.store import SqlStore, open_store

EXPERIMENT, TRIAL = NumberKind.EXPERIMENT, NumberKind.TRIAL


def numbers_of(store: Store) -> Numbers:
    return cast(SqlStore, store).numbers


def test_each_kind_is_numbered_from_one_in_the_order_of_the_question(store: Store) -> None:
    numbers = numbers_of(store)
    assert numbers.numbers(EXPERIMENT, ["b", "a"]) == {"b": 1, "a": 2}
    assert numbers.numbers(TRIAL, ["z"]) == {"z": 1}
    assert numbers.numbers(EXPERIMENT, ["c", "a", "c"]) == {"c": 3, "a": 2}
    assert numbers.numbers(EXPERIMENT, []) == {}


def test_what_has_a_number_is_found_by_it(store: Store) -> None:
    numbers = numbers_of(store)
    many = [f"run-{at:04}" for at in range(1_200)]
    assert numbers.numbers(TRIAL, many) == {each: at for at, each in enumerate(many, 1)}
    assert numbers.numbered(TRIAL, 1_200) == "run-1199"
    assert [numbers.numbered(TRIAL, at) for at in (0, -1, 1_201, 2**70)] == [None] * 4
    assert numbers.numbered(EXPERIMENT, 1) is None


def test_an_id_that_no_database_can_hold_has_none(store: Store) -> None:
    assert numbers_of(store).numbers(TRIAL, ["\0", "a"]) == {"a": 1}


def test_several_who_ask_at_once_get_the_same_numbers(store: Store) -> None:
    numbers = numbers_of(store)
    ids = [f"e{at}" for at in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: numbers.numbers(EXPERIMENT, ids[at:] + ids[:at]), range(16)))
    assert all(each == found[0] for each in found)
    assert sorted(found[0].values()) == list(range(1, 41))


def test_a_number_that_is_passed_on(store: Store) -> None:
    numbers = numbers_of(store)
    numbers.numbers(TRIAL, ["a", "b"])
    numbers.numbers(EXPERIMENT, ["a"])
    numbers.pass_on(TRIAL, "a", "c")
    assert (numbers.numbered(TRIAL, 1), numbers.known(TRIAL, ["a", "c"])) == ("c", {"c": 1})
    assert numbers.numbers(TRIAL, ["a"]) == {"a": 3}
    numbers.pass_on(TRIAL, "b", "c")
    numbers.pass_on(TRIAL, "nothing", "d")
    assert numbers.known(TRIAL, ["b", "c", "d"]) == {"b": 2, "c": 1}
    assert numbers.known(EXPERIMENT, ["a"]) == {"a": 1}


def test_a_number_outlives_the_connection(database_url: str) -> None:
    first = open_store(database_url)
    given = first.numbers.numbers(TRIAL, ["a", "b"])
    first.close()
    second = open_store(database_url)
    assert second.numbers.numbers(TRIAL, ["b", "a", "c"]) == {**given, "c": 3}
    second.close()

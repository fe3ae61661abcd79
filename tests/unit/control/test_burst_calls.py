"""Calls of providers in threads: a bounded number at a time, each made once, whatever the others do."""

from threading import Event, Lock, Semaphore

from tarmac.control.burst.renter import MOST_THREADS, Threads
from tarmac.model.errors import Unavailable

LIMIT_S = 60.0


def test_many_calls_wait_for_a_bounded_number_of_threads() -> None:
    ended, open_all, lock = Semaphore(0), Event(), Lock()
    made: list[int] = []
    at_work, most = 0, 0

    def call(number: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        open_all.wait(LIMIT_S)
        with lock:
            at_work -= 1
            made.append(number)

    calls = Threads(ended.release)
    for number in range(5 * MOST_THREADS):
        calls.begin(str(number), lambda number=number: call(number))  # type: ignore[misc]
        calls.begin(str(number), lambda: made.append(-1))  # its key is taken
    assert calls.busy(str(5 * MOST_THREADS - 1))
    open_all.set()
    assert all(ended.acquire(timeout=LIMIT_S) for _ in range(5 * MOST_THREADS))
    assert sorted(made) == list(range(5 * MOST_THREADS))
    assert most <= MOST_THREADS


def test_a_call_that_fails_holds_up_no_other() -> None:
    ended = Semaphore(0)
    made: list[str] = []

    def refuse() -> None:
        raise Unavailable("the provider is down")

    def break_down() -> None:
        raise ZeroDivisionError

    calls = Threads(ended.release)
    for _ in range(2):
        for key, call in (("a", refuse), ("b", break_down), ("c", lambda: made.append("c"))):
            calls.begin(key, call)
        assert all(ended.acquire(timeout=LIMIT_S) for _ in range(3))
    assert made == ["c", "c"]

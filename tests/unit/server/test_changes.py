"""News across threads: none is lost between looking and waiting, each watcher hears of its own run only."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from tarmac.server.changes import READING_THREADS, Changes


def attached() -> Changes:
    changes = Changes()
    changes.attach(asyncio.get_running_loop())
    return changes


def test_a_change_told_from_a_thread_wakes_who_watches_the_run() -> None:
    async def wait() -> bool:
        changes = attached()
        with changes.watch("r1") as watch:
            threading.Thread(target=changes.tell, args=(["r2", "r1"],)).start()
            return await watch.after(0, timeout_s=120)

    assert asyncio.run(wait())


def test_a_change_between_looking_and_waiting_is_not_lost() -> None:
    async def wait() -> bool:
        changes = attached()
        with changes.watch("r1") as watch:
            seen = watch.version
            changes.tell(["r1"])
            return await watch.after(seen, timeout_s=120)

    assert asyncio.run(wait())


def test_other_runs_and_ended_watches_wake_nobody() -> None:
    async def wait() -> tuple[bool, int]:
        changes = attached()
        with changes.watch("r1") as gone:
            pass
        with changes.watch("r1") as watch:
            changes.tell(["r2"])
            woken = await watch.after(watch.version, timeout_s=0)
            changes.tell(["r1"])
            await watch.after(watch.version, timeout_s=120)
            return woken, gone.version

    assert asyncio.run(wait()) == (False, 0)


def test_a_storm_wakes_a_watcher_once() -> None:
    async def wait() -> int:
        changes = attached()
        with changes.watch("r1") as watch:
            for _ in range(100):
                changes.tell(["r1"])
            await watch.after(0, timeout_s=120)
            return watch.version

    assert asyncio.run(wait()) == 1


def test_stopping_wakes_everybody() -> None:
    async def wait() -> list[bool]:
        changes = attached()
        with changes.watch("r1") as one, changes.watch("r1") as two, changes.watch("r2") as three:
            waiters = [asyncio.create_task(watch.after(0, timeout_s=120)) for watch in (one, two, three)]
            asyncio.get_running_loop().call_soon(changes.stop)
            return await asyncio.gather(*waiters)

    assert asyncio.run(wait()) == [True, True, True]


def test_telling_after_the_loop_is_gone_is_harmless() -> None:
    async def watched() -> Changes:
        changes = attached()
        changes.watch("r1").__enter__()
        return changes

    asyncio.run(watched()).tell(["r1"])


def test_many_streams_look_less_often_each() -> None:
    changes = Changes()
    with ExitStack() as open_streams:
        for number in range(20):
            open_streams.enter_context(changes.watch(f"r{number % 2}"))
        assert changes.spread_s(0.05, 0.001) == 0.05, "as often as their engine allows"
        for _ in range(80):
            open_streams.enter_context(changes.watch("r1"))
        assert changes.spread_s(0.05, 0.001) == pytest.approx(0.1)


def test_streams_leave_threads_to_requests() -> None:
    """However many streams read at once, few threads do it."""
    running, most = 0, 0
    lock, full = threading.Lock(), threading.Barrier(READING_THREADS)

    def look() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(120)
        with lock:
            running -= 1

    async def crowd() -> None:
        changes = attached()
        await asyncio.gather(*(changes.read(look) for _ in range(10 * READING_THREADS)))

    asyncio.run(crowd())
    assert most == READING_THREADS

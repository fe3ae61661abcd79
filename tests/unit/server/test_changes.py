"""News across threads: none is lost between looking and waiting, and a storm wakes a waiter once."""

from __future__ import annotations

import asyncio
import threading

from tarmac.server.changes import Changes


def test_a_change_told_from_a_thread_wakes_who_waits() -> None:
    async def wait() -> bool:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        threading.Thread(target=changes.tell).start()
        return await changes.after(0, timeout_s=30)

    assert asyncio.run(wait())


def test_a_change_between_looking_and_waiting_is_not_lost() -> None:
    async def wait() -> bool:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        seen = changes.version
        changes.tell()
        return await changes.after(seen, timeout_s=30)

    assert asyncio.run(wait())


def test_without_news_the_wait_ends_in_time() -> None:
    async def wait() -> bool:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        changes.tell()
        return await changes.after(changes.version, timeout_s=0)

    assert not asyncio.run(wait())


def test_stopping_wakes_everybody() -> None:
    async def wait() -> list[bool]:
        changes = Changes()
        changes.attach(asyncio.get_running_loop())
        waiters = [asyncio.create_task(changes.after(0, timeout_s=30)) for _ in range(3)]
        asyncio.get_running_loop().call_soon(changes.stop)
        return await asyncio.gather(*waiters)

    assert len(asyncio.run(wait())) == 3


def test_telling_after_the_loop_is_gone_is_harmless() -> None:
    changes = Changes()

    async def attach() -> None:
        changes.attach(asyncio.get_running_loop())

    asyncio.run(attach())
    changes.tell()
    assert changes.version == 1

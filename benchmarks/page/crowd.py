"""Many tabs of one browser: the server's memory and processor, changes in all tabs, and a killed server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from playwright.sync_api import Browser

from benchmarks.page.filled import ARGUMENTS  # noqa: F401 - first: it makes the builders of tests known
from page_crowds import Crowd, used
from tarmac.client import Client

QUIET_S = 20.0
KILLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded:
    """Times in ms until a tab shows a change, of all tabs; the share of a processor; memory in MB."""

    tabs: int
    streams: int
    changes: list[float]
    quiet_share: float
    busy_share: float
    memory_before: float
    memory_after: float
    recoveries: list[float]
    reloaded: int

    def rows(self) -> Iterator[tuple[str, str]]:
        """What was found, as texts."""
        yield "streams of changes, asked for by all tabs", f"{self.streams}"
        yield "a change, median of all tabs (at most 1,000 ms)", f"{median(self.changes):.0f} ms"
        yield "a change, the slowest tab", f"{max(self.changes):.0f} ms"
        yield "processor of the server, nothing changes", f"{self.quiet_share:.1%}"
        yield "processor of the server, a change a second", f"{self.busy_share:.1%}"
        yield (
            "memory of the server, before and with the tabs",
            (f"{self.memory_before:.0f} and {self.memory_after:.0f} MB"),
        )
        yield "a change after kill -9 and a start, median of all tabs", f"{median(self.recoveries):.0f} ms"
        yield "a change after kill -9 and a start, the slowest tab", f"{max(self.recoveries):.0f} ms"
        yield "tabs that were loaded again", f"{self.reloaded}"


def crowd(opened: Browser, client: Client, *, tabs: int, times: int) -> Crowded:
    """Open the tabs, change what they show, and kill the server under them."""
    pid = client.version().pid
    _, memory_before = used(pid)
    context = opened.new_context(viewport={"width": 1280, "height": 800})
    crowded = Crowd(context, client, tabs)
    quiet_share = _share(pid, lambda: time.sleep(QUIET_S))
    changes: list[float] = []
    busy_share = _share(pid, lambda: changes.extend(_changes(crowded, times)))
    _, memory_after = used(pid)
    recoveries: list[float] = []
    for _ in range(KILLS):
        os.kill(client.version().pid, signal.SIGKILL)
        client.version()  # starts the next one
        recoveries += crowded.step()
    return Crowded(
        tabs=tabs,
        streams=crowded.streams - KILLS,
        changes=changes,
        quiet_share=quiet_share,
        busy_share=busy_share,
        memory_before=memory_before,
        memory_after=memory_after,
        recoveries=recoveries,
        reloaded=crowded.reloaded(),
    )


def _changes(crowded: Crowd, times: int) -> Iterator[float]:
    for _ in range(times):
        began = time.monotonic()
        yield from crowded.step()
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


def _share(pid: int, work: Callable[[], object]) -> float:
    """The share of a processor that the server uses meanwhile."""
    began_s, (before_s, _) = time.monotonic(), used(pid)
    work()
    return (used(pid)[0] - before_s) / (time.monotonic() - began_s)

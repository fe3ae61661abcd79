"""Many tabs of one browser on one server, and when each shows a change. For tests and measurements."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page

from filled_homes import BUSY
from tarmac.client import Client

LIMIT_MS = 120_000
WAITS = "name: {name}\npriority: {priority}\npool: busy\nslots: 8\ntime_limit: 1h\ncommand: sleep 60\n"
NODE = "node9"

_COUNT = r"(document.querySelector('h1 .quiet')?.textContent ?? '').replace(/\D/g, '')"
_NAMES = "[...document.querySelectorAll('.table-row a')].map((link) => link.textContent)"
_LOOK = """() => {
  window.crowd = { at: null };
  const look = () => {
    if (SHOWN) window.crowd.at = performance.timeOrigin + performance.now();
    else setTimeout(look, 40);
  };
  look();
}"""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab, and the expression that holds once it shows a step.

    In it: the number of the step, and whether that is odd.
    """

    page: Page
    shown: str


class Crowd:
    """Tabs on four pages, in turns: the runs, the queue, one run and the nodes.

    A step changes all four. `streams` are the requests for the stream of changes so far.
    """

    def __init__(self, context: BrowserContext, client: Client, tabs: int) -> None:
        self._client, self._step = client, 0
        self.streams = 0
        context.on("request", lambda request: self._count(request.url))
        self._paused = client.submit(WAITS.format(name="in-turns", priority=0)).id
        of = [
            ("/?text=crowd-", f"{_COUNT} === '{{step}}'"),
            (f"/queue?pool=local/{BUSY}", f"{_NAMES}.includes('crowd-{{step}}')"),
            (
                f"/run/{self._paused}",
                "/paused/.test(document.querySelector('.bar .status').textContent) === {odd}",
            ),
            ("/nodes", "(document.querySelectorAll('.node .slot-drained').length > 0) === {odd}"),
        ]
        address = urlsplit(client.page_address().url)
        first = context.new_page()
        first.goto(address.geturl())
        self._tabs: list[Tab] = []
        for number in range(tabs):
            path, shown = of[number % len(of)]
            page = first if number == 0 else context.new_page()
            page.goto(f"http://{address.netloc}{path}", wait_until="commit", timeout=LIMIT_MS)
            page.locator("h1").wait_for(timeout=LIMIT_MS)
            page.evaluate("() => { window.sameDocument = true }")
            self._tabs.append(Tab(page, shown))

    def step(self) -> list[float]:
        """Make a change, and return the milliseconds after which each tab shows it."""
        self._step += 1
        odd = self._step % 2 == 1
        for tab in self._tabs:
            shown = tab.shown.format(step=self._step, odd=str(odd).lower())
            tab.page.evaluate(_LOOK.replace("SHOWN", shown))
        began_ms = time.time() * 1000
        (self._client.drain if odd else self._client.undrain)(NODE)
        (self._client.pause if odd else self._client.resume)(self._paused)
        self._client.submit(WAITS.format(name=f"crowd-{self._step}", priority=2_000 + self._step))
        return [self._shown_at(tab.page) - began_ms for tab in self._tabs]

    def reloaded(self) -> int:
        """How many tabs have another document than at first."""
        return sum(not tab.page.evaluate("() => window.sameDocument === true") for tab in self._tabs)

    def _shown_at(self, page: Page) -> float:
        page.wait_for_function("() => window.crowd?.at", polling=40, timeout=LIMIT_MS)
        return float(page.evaluate("() => window.crowd.at"))

    def _count(self, url: str) -> None:
        self.streams += "/tables/runs/changes" in url


def used(pid: int) -> tuple[float, float]:
    """The processor time of a process so far, in seconds, and its memory, in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / 100, pages * 4096 / 1e6

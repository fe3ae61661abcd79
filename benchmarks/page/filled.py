"""A server of a filled home, and tabs of a browser that are logged in. Used by the measurements of the page.

The builders and the stopwatch are those of the tests of the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/support"))

from benchmarks.sandbox import sandbox
from filled_homes import Filled, fill
from tarmac.client import Client

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update")


@contextmanager
def filled_server(runs: int) -> Iterator[tuple[Client, Filled]]:
    """A client of a server with so many runs, and what they are."""
    found: list[Filled] = []
    with sandbox(lambda home: found.append(fill(home, runs))) as client:
        yield client, found[0]


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()


def admitted(opened: Browser, client: Client, *, slow: float = 1.0) -> Page:
    """A tab that is logged in, on a processor that is slower by a factor."""
    page = opened.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: print(f"error in the page: {error}", file=sys.stderr))
    page.goto(client.page_address().url)
    if slow > 1:
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slow})
    return page

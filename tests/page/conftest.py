"""A browser on the page of a real server: Debian's chromium, headless.

Every page fails its test if the browser reports an error, a refusal of the content policy, or a request to
another host.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from quiet_browsers import quiet
from shell import Shell
from tarmac.client import Client
from tarmac.server.page.files import BUILT

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update")

REFUSED = re.compile(r"Failed to load resource: the server responded with a status of (403|409|422)\b")
"""The browser's own line about a refusal, which the page shows."""

LIMIT_MS = 30_000
"""The longest wait for something to appear, on a busy machine."""

Open = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process starts a browser."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser; skips where there is none, or where the page was not built.

    It ends with each file: its event loop would be the one of every later test of this process.
    """
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    if not (BUILT / "entry.json").exists():
        pytest.skip("the page is not built: make page")
    expect.set_options(timeout=LIMIT_MS)
    program = quiet(CHROMIUM, tmp_path_factory.mktemp("browser"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with a server of their own, for the tests of one file."""
    root = tmp_path_factory.mktemp("page")
    made = Shell(root / "home", root / "project")
    made.directory.mkdir()
    made.tarmac("server", "start", code=0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(owner: Shell) -> Iterator[Client]:
    """The client of that user."""
    with Client(home=owner.home) as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser without cookies."""
    made = browser.new_context(viewport={"width": 1280, "height": 800})
    made.set_default_timeout(LIMIT_MS)
    yield made
    made.close()


@pytest.fixture
def open_page(context: BrowserContext, client: Client) -> Iterator[Open]:
    """Opens a path of the page, as the owner of the server."""
    reports: list[str] = []

    def watch(page: Page, host: str) -> None:
        def console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not REFUSED.match(message.text):
                reports.append(f"{message.type}: {message.text}")

        def request(sent: Request) -> None:
            if urlsplit(sent.url).netloc != host:
                reports.append(f"a request to {sent.url}")

        page.on("console", console)
        page.on("pageerror", lambda error: reports.append(f"error: {error}"))
        page.on("request", request)

    def open_(path: str = "/") -> Page:
        address = urlsplit(client.page_address().url)
        page = context.new_page()
        watch(page, address.netloc)
        page.goto(address.geturl())
        if path != "/":
            page.goto(f"http://{address.netloc}{path}")
        return page

    yield open_
    assert reports == []

"""The log of a run in a browser: its last lines first, followed, searched, filtered, of any length."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Locator, Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]
PROGRAM = """name: {name}
command:
- python3
- -uc
- |
  import os, time
  for number in range(2000): print("step %04d" % number, "val_error=0.1", "x" * number)
  print("\\x1b[31mRuntimeError\\x1b[0m: no shard")
  for number in range(2000, 3000): print("step %04d" % number)
  print("\\r".join("%d%% loaded" % number for number in range(101)))
  number = 0
  while not os.path.exists("{until}"):
    number += 1
    while not os.path.exists("{until}.%d" % number) and not os.path.exists("{until}"): time.sleep(0.05)
    print("later %d" % number)
"""
HOSTILE = "\\\\033]0;owned\\\\007 \\\\342\\\\200\\\\256txt.exe <img src=x onerror=alert(1)>"


class Growing:
    """A run that prints another line whenever a test says so."""

    def __init__(self, client: Client, until: Path) -> None:
        self._until, self._client, self._lines = until, client, 0
        self.id = client.submit(PROGRAM.format(name="growing", until=until)).id

    def grow(self) -> None:
        self._lines += 1
        Path(f"{self._until}.{self._lines}").touch()

    def end(self) -> None:
        self._until.touch()


@pytest.fixture(scope="module")
def growing(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    return Growing(client, tmp_path_factory.mktemp("growing") / "end")


def lines(page: Page) -> Locator:
    return page.locator(".log-text")


def line(page: Page, text: str) -> Locator:
    return lines(page).filter(has_text=re.compile(f"^{re.escape(text)}"))


def scroll(page: Page, amount: str) -> None:
    page.locator(".log").evaluate(f"element => {{ element.scrollTop = {amount} }}")


def test_i2_the_last_hundred_lines_come_first_and_older_ones_when_scrolled(
    open_page: Open, growing: Growing
) -> None:
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "log-lines" in request.url else None)
    page.goto(f"{page.url}run/{growing.id}/logs")
    expect(line(page, "100% loaded")).to_be_in_viewport()
    assert asked[0].endswith("?lines=100")
    scroll(page, "0")
    expect(lines(page).first).to_have_text(re.compile("step (1|2[0-8])"))
    page.locator(".log").press("Home")
    expect(line(page, "step 0000")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Follow", exact=True)).to_have_attribute("aria-pressed", "false")
    page.locator(".log").press("End")
    expect(line(page, "100% loaded")).to_be_in_viewport()


def test_the_end_is_followed_until_a_person_scrolls(open_page: Open, growing: Growing) -> None:
    page = open_page(f"/run/{growing.id}/logs")
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(line(page, "100% loaded")).to_be_in_viewport()
    growing.grow()
    expect(line(page, "later 1")).to_be_in_viewport()
    scroll(page, "element.scrollTop - 200")
    expect(follow).to_have_attribute("aria-pressed", "false")
    growing.grow()
    expect(line(page, "later 2")).to_be_attached()
    expect(line(page, "later 2")).not_to_be_in_viewport()
    follow.click()
    expect(line(page, "later 2")).to_be_in_viewport()
    expect(follow).to_have_attribute("aria-pressed", "true")


def test_a_search_sees_the_whole_log_while_it_grows_and_a_link_carries_its_place(
    open_page: Open, growing: Growing
) -> None:
    page = open_page(f"/run/{growing.id}/logs")
    search = page.get_by_role("searchbox")
    search.fill("STEP 0")
    expect(page.locator(".log-count")).to_have_text("1\u202f000 lines")
    search.fill("step 012")
    expect(page.locator(".log-count")).to_have_text("10 lines")
    search.press("Enter")
    expect(line(page, "step 0129").locator("mark")).to_be_in_viewport()
    expect(page.locator(".log-count")).to_have_text("10 of 10")
    search.press("Enter")
    expect(page.locator(".log-line[data-chosen]")).to_contain_text("step 0128")
    page.get_by_title("Match below").click()
    expect(page.locator(".log-line[data-chosen]")).to_contain_text("step 0129")
    page.reload()
    expect(page.locator(".log-line[data-chosen]")).to_contain_text("step 0129")
    expect(line(page, "step 0129")).to_be_in_viewport()
    search.fill("later")
    count = page.locator(".log-count")
    expect(count).to_have_text(re.compile(r"^\d+ lines$"))
    before = int(count.inner_text().split()[0])
    growing.grow()
    expect(count).to_have_text(f"{before + 1} lines")


def test_only_errors_are_shown_and_lead_to_their_place(open_page: Open, growing: Growing) -> None:
    page = open_page(f"/run/{growing.id}/logs")
    page.get_by_role("button", name="Errors").click()
    expect(lines(page)).to_have_text(["RuntimeError: no shard"])
    expect(lines(page).locator(".colour-1")).to_have_text("RuntimeError")
    page.locator(".log-link").click()
    expect(page.locator(".log-line[data-chosen]")).to_be_visible()
    page.get_by_role("button", name="Errors").click()
    expect(line(page, "step 2000")).to_be_in_viewport()
    expect(line(page, "RuntimeError")).to_be_in_viewport()
    page.get_by_role("button", name="Times").click()
    expect(page.locator(".log-link").first).to_have_text(re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d"))


def test_hostile_lines_are_text(open_page: Open, client: Client) -> None:
    run = client.submit(f"name: hostile\ncommand: \"printf '{HOSTILE}\\\\n'\"\n").id
    page = open_page(f"/run/{run}/logs")
    expect(lines(page)).to_have_text(["^[]0;owned^G <U+202E>txt.exe <img src=x onerror=alert(1)>"])
    assert page.locator("img[src=x]").count() == 0


def test_each_worker_and_attempt_has_its_log(open_page: Open, client: Client) -> None:
    spec = "name: two\nroles:\n  one: {command: echo first}\n  two: {command: echo second, resources: 0}\n"
    run = client.submit(spec).id
    page = open_page(f"/run/{run}/logs")
    expect(lines(page)).to_have_text(["first"])
    page.get_by_role("button", name="one.0.0").click()
    page.get_by_role("button", name="two.0.0").click()
    expect(lines(page)).to_have_text(["second"])
    assert "role=two" in page.url
    expect(page.locator(".bar .command code")).to_contain_text(f"tarmac logs {run} --attempt 1 --role two")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_text() == "second\n"


def test_a_run_that_waits_has_no_log_yet(open_page: Open, client: Client, growing: Growing) -> None:
    """Its log appears when it starts."""
    run = client.submit(f"name: later\nafter: ['{growing.id}:ended']\ncommand: echo hello\n").id
    page = open_page(f"/run/{run}/logs")
    expect(page.locator(".loading")).to_have_text("This run has no log yet.")
    growing.end()
    expect(lines(page)).to_have_text(["hello"])


def test_millions_of_lines_stay_quick(open_page: Open, client: Client, owner: Shell) -> None:
    run = client.submit("name: long\ncommand: echo begin\n").id
    owner.tarmac("wait", run, code=0)
    (attempt,) = client.attempts(run)
    assert attempt.directory is not None
    block = b"".join(b"step %06d loss 0.25\n" % number for number in range(100_000))
    with (Path(attempt.directory) / "logs" / "main.0.0.log").open("ab") as log:
        for _ in range(25):
            log.write(block)
        log.write(b"Needle\n")
        for _ in range(25):
            log.write(block)
    page = open_page(f"/run/{run}/logs")
    expect(line(page, "step 099999").last).to_be_in_viewport()
    took_ms: list[float] = []
    for key, text in [("Home", "begin"), ("End", "step 099999")] * 5:
        page.evaluate("() => performance.clearResourceTimings()")
        page.locator(".log").press(key)
        expect(line(page, text).first).to_be_in_viewport()
        took_ms += page.evaluate("() => performance.getEntriesByType('resource').map(each => each.duration)")
    assert median(took_ms) < 300, took_ms
    page.get_by_role("slider").fill("55000000")
    expect(page.locator(".log-text").first).to_have_text(re.compile("step 0"))
    page.get_by_role("searchbox").fill("needle")
    expect(page.locator(".log-count")).to_have_text("1 lines", timeout=60_000)
    page.get_by_role("searchbox").press("Enter")
    expect(line(page, "Needle")).to_be_in_viewport()
    for _ in range(20):
        page.mouse.wheel(0, 100_000)
    expect(line(page, "step 000000").first).to_be_attached()
    assert page.locator(".log-line").count() < 200

"""A terminal in a browser: typed commands, its size, its end, who may open one, and hostile programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Locator, Page, expect

from page_acts import lose_session
from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]
SLEEP = "name: {name}\nenv: {{SHELL: /bin/sh}}\ncommand: while [ ! -e {until} ]; do sleep 0.1; done\n"
HOSTILE = r"""printf '\033]0;owned\007\033]52;c;b3duZWQ=\007\033]8;;https://evil.example/\007link\033]8;;\007\033[21t'
printf '\342\200\256<img src=x onerror=alert(1)>\033]11;#ff0000\007\n'
"""


@pytest.fixture
def run(client: Client, tmp_path: Path) -> Iterator[str]:
    """A run that lasts until the file `end` exists; it has started."""
    found = client.submit(SLEEP.format(name="beside", until=tmp_path / "end")).id
    for message in client.follow(found):
        if message.event == "state" and message.data.state == "running":
            break
    yield found
    client.stop(found)


def screen(page: Page) -> Locator:
    return page.locator(".xterm-rows")


def enter(page: Page, text: str) -> None:
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def opened(page: Page) -> Page:
    expect(page.get_by_role("status")).to_have_text("connected")
    return page


def test_a_typed_command_is_answered_and_the_terminal_has_the_size_of_its_window(
    open_page: Open, run: str
) -> None:
    first = open_page(f"/run/{run}")
    with first.context.expect_page() as found:
        first.get_by_role("link", name="terminal").click()
    page = opened(found.value)
    enter(page, "echo $((6*7))-$TARMAC_RUN_ID")
    expect(screen(page)).to_contain_text(f"42-{run}")
    enter(page, "stty size")
    expect(screen(page)).to_contain_text(re.compile(r"[34]\d 1[4-9]\d"))
    page.set_viewport_size({"width": 640, "height": 400})
    enter(page, "clear; stty size")
    expect(screen(page)).to_contain_text(re.compile(r"[12]\d [78]\d"))
    enter(page, "exit 3")
    expect(page.get_by_role("status")).to_have_text("ended: exit 3")
    page.get_by_role("button", name="Start again").click()
    opened(page)


def test_a_pasted_text_arrives_whole(open_page: Open, run: str) -> None:
    """It is larger than the room of the other end."""
    page = opened(open_page(f"/run/{run}/terminal"))
    enter(page, "stty -echo raw; head -c 1000000 | wc -c")
    paste = """text => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
    }"""
    page.evaluate(paste, "0123456789" * 100_000)
    expect(screen(page)).to_contain_text(re.compile(r"^.*\b1000000\b"))


def test_a_command_of_a_link_waits_for_a_person(open_page: Open, run: str, tmp_path: Path) -> None:
    page = open_page(f"/run/{run}/terminal?command=touch+{tmp_path}/made")
    expect(page.get_by_label("Command", exact=True)).to_have_value(f"touch {tmp_path}/made")
    expect(page.locator(".command code")).to_have_text(
        f"tarmac exec -it {run} -- sh -c 'touch {tmp_path}/made'"
    )
    assert not (tmp_path / "made").exists()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_have_text("ended: exit 0")
    assert (tmp_path / "made").exists()


def test_a_terminal_ends_with_its_run_and_none_opens_after_it(
    open_page: Open, client: Client, run: str, tmp_path: Path
) -> None:
    page = opened(open_page(f"/run/{run}/terminal"))
    (tmp_path / "end").touch()
    expect(page.get_by_role("status")).to_have_text("the worker has ended, and the session with it")
    client.wait(run)
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_role("status")).to_contain_text("there is nothing to open a session beside")
    page.goto(page.url.replace("/terminal", ""))
    expect(page.get_by_role("link", name="Files")).to_be_visible()
    expect(page.get_by_role("link", name="terminal")).to_have_count(0)


def test_a_broken_connection_is_told(open_page: Open, run: str, owner: Shell) -> None:
    page = opened(open_page(f"/run/{run}/terminal"))
    owner.tarmac("server", "restart", code=0)
    expect(page.get_by_role("status")).to_contain_text("what ran in this terminal was ended")
    page.get_by_role("button", name="Start again").click()
    opened(page)


def test_hostile_output_changes_nothing_outside_of_the_screen(
    open_page: Open, run: str, owner: Shell
) -> None:
    (owner.directory / "hostile.sh").write_text(HOSTILE)
    page = open_page(f"/run/{run}/terminal")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("() => navigator.clipboard.writeText('mine')")
    title = opened(page).title()
    background = "() => getComputedStyle(document.querySelector('.xterm-scrollable-element')).backgroundColor"
    before = page.evaluate(background)
    enter(page, f"sh {owner.directory}/hostile.sh")
    expect(screen(page)).to_contain_text("link\ufffd<img src=x onerror=alert(1)>")
    screen(page).get_by_text("link").last.click(force=True)
    assert (page.title(), page.evaluate("() => navigator.clipboard.readText()")) == (title, "mine")
    assert page.evaluate(background) == before
    assert page.locator("img[src=x]").count() == 0
    assert len(page.context.pages) == 1


def test_five_terminals_do_not_take_every_connection(open_page: Open, run: str) -> None:
    pages = [opened(open_page(f"/run/{run}/terminal")) for _ in range(4)]
    page = open_page(f"/run/{run}/terminal")
    expect(page.get_by_role("status")).to_contain_text("4 terminals are open in this browser")
    pages[0].close()
    page.wait_for_function("async () => (await navigator.locks.query()).held.length < 4")
    page.get_by_role("button", name="Start again").click()
    opened(page)


def test_a_member_without_the_right_is_refused(open_page: Open, client: Client, run: str) -> None:
    client.set_user("ada")  # the first user is an admin
    client.set_user("bob", password="correct horse battery")
    page = open_page()
    lose_session(page, f"run/{run}/terminal")
    page.get_by_label("User").fill("bob")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("status")).to_contain_text("bob may not change runs of")
    page.get_by_role("link", name="beside").click()
    expect(page.locator(".panel").first).to_be_visible()
    expect(page.get_by_role("link", name="terminal")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop…")).to_have_count(0)


def test_nobody_else_and_no_other_site_types_into_a_terminal(
    open_page: Open, client: Client, run: str
) -> None:
    page = opened(open_page(f"/run/{run}/terminal"))
    with page.expect_request(re.compile("/api/v1/sessions/")) as sent:
        page.keyboard.type("x")
    client.set_user("ada")
    client.set_user("bob")
    token = client.add_token("typing", user="bob").text
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())

    def status(**headers: str) -> int:
        request = Request(sent.value.url, data=b"", headers=headers, method="POST")
        try:
            with urlopen(request) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code

    assert status(Authorization=f"Bearer {token}") == 404
    assert status(Cookie=cookie, Origin="https://evil.example") == 403
    assert status(Cookie=cookie) == 200

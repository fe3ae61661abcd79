"""The queue of a pool in a browser: its order and estimates, and every way to change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]

SETTINGS = """
[[local]]
slots = 4
[[local]]
slots = 2
pool = "small"
[[local]]
slots = 1
pool = "shared"
[pools.shared]
policy = "fair_share"
"""
WAITS = "name: {name}\npool: {pool}\nslots: {slots}\ntime_limit: 1h\ncommand: sleep 600\n"


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with a server of their own, with three pools."""
    root = tmp_path_factory.mktemp("queue")
    made = Shell(root / "home", root / "project")
    made.directory.mkdir()
    made.home.mkdir()
    (made.home / "settings.toml").write_text(SETTINGS)
    made.tarmac("server", "start", code=0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(owner: Shell) -> Iterator[Client]:
    """The client of that user; one run holds the slots of each pool, and others wait."""
    with Client(home=owner.home) as made:
        for pool, slots in (("default", 4), ("small", 2), ("shared", 1)):
            made.submit(WAITS.format(name=f"holds-{pool}", pool=pool, slots=slots))
        for number in range(4):
            made.submit(WAITS.format(name=f"waits-{number}", pool="default", slots=4))
        for name in ("fair", "other"):
            made.submit(WAITS.format(name=name, pool="shared", slots=1))
        yield made


@pytest.fixture
def page(open_page: Open) -> Page:
    """The queue of the pool `default`, once it is there."""
    opened = open_page("/queue?pool=local/default")
    expect(row(opened, "waits-0")).to_be_visible()
    return opened


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def order(page: Page, *names: str) -> None:
    """Insist on the order of the waiting runs."""
    expect(page.locator(".cell > a").filter(has_text=re.compile("^waits-"))).to_have_text(list(names))


def choose(page: Page, name: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions of {name}", exact=True).click()
    page.get_by_role("button", name=action, exact=True).click()


def test_d16_a_queue_has_the_columns_of_determined_in_scheduling_order(page: Page) -> None:
    heads = page.get_by_role("columnheader").all_inner_texts()
    assert heads[:9] == [
        "Ahead", "Type", "Name", "Priority", "Submitted", "Slots", "State", "Est. start", "User"
    ]  # fmt: skip
    cells = row(page, "waits-1").get_by_role("gridcell")
    assert cells.nth(0).inner_text() == "2"
    assert cells.nth(5).inner_text() == "0/4"
    expect(cells.nth(7)).to_have_text(re.compile(r"in \d+ (min|h)"))
    assert page.get_by_role("navigation", name="Pools").get_by_role("link").count() == 3


def test_d16_manage_job_changes_priority_and_names_its_command(page: Page, client: Client) -> None:
    order(page, "waits-0", "waits-1", "waits-2", "waits-3")
    choose(page, "waits-2", "Manage job…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Priority").fill("5")
    expect(dialog.locator("code")).to_have_text(re.compile(r"^tarmac queue set r\w+ --priority 5$"))
    dialog.get_by_role("button", name="OK").click()
    expect(dialog).to_have_count(0)
    order(page, "waits-2", "waits-0", "waits-1", "waits-3")
    assert client.run("waits-2").priority == 5
    choose(page, "waits-2", "Manage job…")
    dialog.get_by_label("Priority").fill("0")
    dialog.get_by_role("button", name="OK").click()
    order(page, "waits-0", "waits-1", "waits-2", "waits-3")


def test_d16_move_to_top_and_drag_between_two_others(page: Page) -> None:
    choose(page, "waits-3", "Move to top")
    order(page, "waits-3", "waits-0", "waits-1", "waits-2")
    row(page, "waits-3").drag_to(row(page, "waits-1"), target_position={"x": 400, "y": 24})
    order(page, "waits-0", "waits-1", "waits-3", "waits-2")
    expect(page.locator(".last-change code")).to_have_text(
        re.compile(r"^tarmac queue move r\w+ --behind-of r\w+$")
    )


def test_d16_the_same_by_keyboard(page: Page) -> None:
    names = page.locator(".cell > a").filter(has_text=re.compile("^waits-")).all_inner_texts()
    page.locator(".table").focus()
    page.keyboard.press("End")
    page.keyboard.press("Alt+ArrowUp")
    order(page, *names[:2], names[3], names[2])
    expect(page.locator(".table-row[data-active] a").first).to_have_text(names[3])
    page.keyboard.press("Alt+ArrowDown")
    order(page, *names)


def test_d16_refusals_have_their_reason(open_page: Open) -> None:
    page = open_page("/queue?pool=local/shared")
    expect(page.get_by_role("columnheader", name="Weight")).to_be_visible()
    choose(page, "other", "Move to top")
    expect(page.locator(".notice.failed")).to_contain_text("no run has a place of its own")
    page.goto(page.url.replace("shared", "default"))
    choose(page, "waits-0", "Manage job…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Pool").select_option("shared")
    dialog.get_by_role("button", name="OK").click()
    expect(dialog.get_by_role("alert")).to_contain_text("could never hold waits-0")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row(page, "waits-0")).to_be_visible()


def test_what_if_a_waiting_run_asked_for_less_or_for_another_pool(page: Page, client: Client) -> None:
    client.stop("holds-small")
    choose(page, "waits-0", "What if…")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row").filter(has_text="2 slots")).to_contain_text("would wait")
    expect(dialog.get_by_role("row").filter(has_text="Pool shared")).to_contain_text("could never start")


def test_a_change_of_others_is_seen_and_mine_are_chosen_by_a_link(page: Page, client: Client) -> None:
    client.submit(WAITS.format(name="waits-4", pool="default", slots=4))
    expect(row(page, "waits-4")).to_be_visible()
    page.get_by_role("button", name="Mine").click()
    expect(page).to_have_url(re.compile("scope=mine"))
    expect(row(page, "waits-4")).to_be_visible()
    client.stop("waits-4")
    expect(row(page, "waits-4")).to_have_count(0)

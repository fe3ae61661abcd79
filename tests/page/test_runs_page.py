"""The table of all runs in a browser: filters, order, selection, commands, and changes as they happen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]
SLEEP = "name: {name}\nlabels: {{kind: page}}\ncommand: sleep 600\n"


@pytest.fixture(scope="module", autouse=True)
def runs(client: Client) -> list[str]:
    """Twelve runs that do nothing, with names of their own."""
    return [client.submit(SLEEP.format(name=f"idle-{number:02}")).id for number in range(12)]


def names(page: Page) -> list[str]:
    return page.locator(".table-row a").all_inner_texts()


def rows(page: Page, text: str) -> None:
    expect(page.locator("h1 .quiet")).to_have_text(text)


def test_i1_the_newest_runs_are_first_and_a_link_carries_filter_and_order(open_page: Open) -> None:
    page = open_page()
    expect(page.locator(".table-row a").first).to_have_text("idle-11")
    page.get_by_role("searchbox").fill("idle-0")
    rows(page, "10")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page.locator(".table-row a").first).to_have_text("idle-09")
    page.get_by_role("button", name=re.compile("^Name")).click()
    expect(page.locator(".table-row a").first).to_have_text("idle-00")
    assert page.url.endswith("/?text=idle-0&sort=name")
    page.reload()
    rows(page, "10")
    assert names(page)[0] == "idle-00"
    page.go_back()
    expect(page.locator(".table-row a").first).to_have_text("idle-09")


def test_i1_a_change_is_seen_without_a_reload(open_page: Open, client: Client) -> None:
    page = open_page("/?text=appears")
    rows(page, "0")
    run = client.submit(SLEEP.format(name="appears")).id
    rows(page, "1")
    expect(page.locator(".status")).to_have_text(re.compile("running"))
    client.stop(run)
    expect(page.locator(".status")).to_have_text(re.compile("stopped"))


def test_selected_runs_are_named_before_a_command_and_each_has_a_result(open_page: Open) -> None:
    page = open_page("/?text=idle-1")
    rows(page, "2")
    page.locator(".table").focus()
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("idle-11")
    expect(dialog).to_contain_text("idle-10")
    expect(dialog.locator("code").last).to_have_text(re.compile("^tarmac pause r"))
    dialog.get_by_role("button", name="Pause 2 runs").click()
    expect(dialog).to_contain_text("2 of 2 done")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".status").first).to_have_text(re.compile("paus"))


def test_a_restart_of_the_server_is_survived_by_an_open_tab(
    open_page: Open, owner: Shell, client: Client
) -> None:
    page = open_page("/?text=later")
    rows(page, "0")
    owner.tarmac("server", "restart", code=0)
    client.submit(SLEEP.format(name="later"))
    rows(page, "1")


def test_hostile_names_are_text(open_page: Open, client: Client) -> None:
    name = "<img src=x onerror=alert(1)>"
    client.submit(f"name: safe\nlabels: {{evil: '{name}'}}\ncommand: echo '{name}'\n")
    page = open_page("/?text=safe")
    page.get_by_role("link", name="safe").click()
    expect(page.locator(".facts")).to_contain_text(name)
    page.get_by_role("link", name="Spec").click()
    expect(page.locator("pre").first).to_contain_text(name)
    assert page.locator("img[src=x]").count() == 0


def test_without_a_session_there_is_a_login(open_page: Open) -> None:
    page = open_page()
    rows(page, re.sub(r"\D", "", page.locator("h1 .quiet").inner_text()))
    page.context.clear_cookies()
    page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_keys_lead_everywhere(open_page: Open) -> None:
    page = open_page()
    page.locator(".table").focus()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("idle-05")
    rows(page, "1")
    page.keyboard.press("Tab")
    page.locator(".table").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("idle-05")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.locator(".table")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()

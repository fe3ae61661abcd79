"""The table of all runs in a browser: filters, order, selection, commands, and changes as they happen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from page_acts import lose_session
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


def test_a_range_has_all_runs_between_also_those_that_were_not_read(open_page: Open, client: Client) -> None:
    made = client.submit("name: far\narray: 0-249\ncommand: sleep 600\n")
    page = open_page("/?text=far&sort=name")
    rows(page, "250")
    table = page.locator(".table")
    table.focus()
    page.keyboard.press("End")
    expect(page.locator("#row-249 a")).to_be_visible()
    table.evaluate("element => (element.scrollTop = 60 * 28)")
    page.locator("#row-60 input").click(modifiers=["Shift"])
    expect(page.get_by_role("toolbar")).to_contain_text("190 selected")
    table.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    expect(page.get_by_text("More than 200 runs cannot be selected one by one")).to_be_visible()
    expect(page.get_by_role("toolbar")).to_contain_text("190 selected")
    client.stop(made.array_id or made.id)


def test_i1_the_values_of_a_filter_are_counted_when_its_menu_opens(open_page: Open) -> None:
    page = open_page("/?text=idle-0")
    rows(page, "10")
    counted: list[str] = []
    page.on("request", lambda sent: counted.append(sent.url) if "/counts" in sent.url else None)
    page.locator("search").get_by_role("button", name="Mode").click()
    choice = page.get_by_role("checkbox", name="batch 10")
    choice.check()
    expect(page.get_by_role("button", name="Mode: batch")).to_be_visible()
    expect(choice).to_be_focused()
    assert [url.partition("?")[2] for url in counted] == ["text=idle-0&field=mode"]
    assert page.url.endswith("/?text=idle-0&mode=batch")


def test_all_that_match_stay_selected_by_their_criteria_and_no_later_run_is_stopped(
    open_page: Open, client: Client
) -> None:
    """The filters are the selection: it survives a reload, and a link has it."""
    for number in range(3):
        client.submit(SLEEP.format(name=f"match-{number}"))
    page = open_page("/?text=match&sort=name")
    rows(page, "3")
    page.locator(".table").focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    page.reload()
    expect(page.get_by_role("toolbar")).to_contain_text("all that match, except 1")
    expect(page.locator(".table-row[aria-selected=true]")).to_have_count(2)
    page.get_by_role("button", name="Stop…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text([re.compile("^match-1"), re.compile("^match-2")])
    later = client.submit(SLEEP.format(name="match-9")).id
    rows(page, "4")
    dialog.get_by_role("button", name="Stop 2 runs").click()
    expect(dialog).to_contain_text("2 of 2 done")
    dialog.get_by_role("button", name="Close").click()
    assert client.run(later).state != "ended"
    page.get_by_role("searchbox").fill("match-0")
    rows(page, "1")
    expect(page.get_by_role("toolbar")).to_be_hidden()


def test_picked_runs_stay_selected_with_other_filters(open_page: Open) -> None:
    page = open_page("/?text=idle-04")
    page.get_by_role("checkbox", name="Select", exact=True).check()
    page.get_by_role("searchbox").fill("idle-05")
    expect(page.locator(".table-row a")).to_have_text(["idle-05"])
    page.get_by_role("checkbox", name="Select", exact=True).check()
    page.reload()
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".bar .quiet").first).to_have_text("2")


def test_the_selected_runs_get_a_label_and_lose_it(open_page: Open, client: Client) -> None:
    page = open_page("/?text=idle-1&selected=all")
    for text, team in (("team=vision", "vision"), ("team-", None)):
        page.get_by_role("button", name="Label…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Label", exact=True).fill(text)
        expect(dialog.locator(".command code")).to_contain_text(f"do tarmac label $run {text}; done")
        dialog.get_by_role("button", name="Label 2 runs").click()
        expect(dialog).to_contain_text("2 of 2 done")
        dialog.get_by_role("button", name="Close").click()
        assert [client.run(f"idle-1{number}").labels.get("team") for number in (0, 1)] == [team, team]


def test_a_command_that_a_run_refuses_is_listed_with_its_reason(open_page: Open, client: Client) -> None:
    run = client.submit("name: brief\ncommand: sleep 600\n").id
    page = open_page("/?text=brief&selected=all")
    page.get_by_role("button", name="Pause…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("brief")
    client.stop(run)
    client.wait(run)
    dialog.get_by_role("button", name="Pause 1 run").click()
    expect(dialog).to_contain_text("0 of 1 done, 1 refused")
    expect(dialog.locator(".failed")).to_contain_text(re.compile(f"brief {run}: .*ended"))


def test_a_view_is_saved_under_a_name_for_its_user(open_page: Open) -> None:
    page = open_page("/?text=idle-0&sort=name&column=name&selected=all")

    def choose(item: str) -> None:
        page.get_by_role("button", name="Views").click()
        page.locator(".menu-list").get_by_text(item, exact=True).click()

    def confirm(button: str, name: str | None = None) -> None:
        dialog = page.get_by_role("dialog")
        if name is not None:
            dialog.get_by_label("Name").fill(name)
        dialog.get_by_role("button", name=button, exact=True).click()
        expect(dialog).to_be_hidden()

    choose("Save this view…")
    confirm("Save this view", "First <b>ten</b>")
    page.goto(page.url.partition("?")[0])
    choose("First <b>ten</b>")
    rows(page, "10")
    assert page.url.endswith("/?text=idle-0&sort=name&column=name")
    choose("Rename…")
    confirm("Rename", "Ten")
    choose("Delete…")
    confirm("Delete")
    page.get_by_role("button", name="Views").click()
    expect(page.locator(".menu-list:popover-open")).to_have_text("Save this view…")


def test_i1_d16_runs_have_the_words_and_columns_of_another_system(open_page: Open, client: Client) -> None:
    """I1: the ISC's Experiments page. D16: Determined's list of experiments."""
    client.stop(client.submit(SLEEP.format(name="abroad")).id)
    page = open_page("/?text=abroad")
    page.get_by_role("button", name="As", exact=True).click()
    page.get_by_role("button", name="isc", exact=True).click()
    heads = page.get_by_role("columnheader")
    expect(heads).to_have_text(["", "ID↓", "Name", "Created", "GPUs", "Mode", "Cycle", "Status"])
    expect(page.locator(".status")).to_have_text(re.compile("cancelled"))
    page.get_by_role("button", name="Status", exact=True).first.click()
    page.get_by_role("checkbox", name="cancelled 1").check()
    expect(page.get_by_role("button", name="Status: cancelled")).to_be_visible()
    expect(page.locator(".status")).to_have_count(1)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="As isc").click()
    page.get_by_role("button", name="determined", exact=True).click()
    expect(page.locator(".status")).to_have_text(re.compile("CANCELED"))
    page.reload()
    expect(heads).to_contain_text(["Owner", "Name", "Parent ID", "State", "Progress"])
    page.get_by_role("link", name="abroad").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("abroad")


def test_a_restart_of_the_server_is_survived_by_an_open_tab(
    open_page: Open, owner: Shell, client: Client
) -> None:
    page = open_page("/?text=later")
    rows(page, "0")
    owner.tarmac("server", "restart", code=0)
    client.submit(SLEEP.format(name="later"))
    rows(page, "1")


def test_a_page_of_another_version_is_read_by_a_reload(context: BrowserContext, client: Client) -> None:
    """The files of a page have other names after an upgrade of the server."""
    page = context.new_page()
    page.goto(client.page_address().url)
    context.route("**/assets/*.js", lambda route: route.abort())
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This page did not come")
    context.unroute_all()
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Queue")


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
    lose_session(page)
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

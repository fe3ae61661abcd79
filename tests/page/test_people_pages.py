"""Projects, usage and the administration in a browser: changes show their commands, and ask before."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from page_acts import lose_session
from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]


@pytest.fixture(scope="module", autouse=True)
def run(client: Client, owner: Shell) -> str:
    """A run of a project, and an account."""
    owner.tarmac("users", "add", "ada", "--role", "admin", code=0)
    return client.submit("name: used\nproject: vision\ncommand: sleep 600\n").id


def fill(dialog: Locator, verb: str, **values: str) -> None:
    for label, value in values.items():
        dialog.get_by_label(label.replace("_", " "), exact=True).fill(value)
    dialog.get_by_role("button", name=verb, exact=True).click()


def change(page: Page, row: str, verb: str) -> Locator:
    """Choose a change in the menu of a row; returns its dialog."""
    page.get_by_role("row", name=row).get_by_role("button", name="Changes").click()
    page.get_by_role("button", name=f"{verb}…").locator("visible=true").click()
    return page.get_by_role("dialog")


def test_the_text_of_a_token_is_shown_once_and_a_revoked_token_is_gone(open_page: Open, owner: Shell) -> None:
    owner.tarmac("tokens", "add", "laptop", "--user", "ada", code=0)
    page = open_page()
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Administration").click()
    dialog = change(page, "laptop", "Revoke")
    expect(dialog.locator("code")).to_have_text(re.compile(r"^tarmac tokens revoke \w+$"))
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("row", name="laptop")).to_be_visible()
    fill(change(page, "laptop", "Revoke"), "Revoke")
    expect(page.get_by_role("row", name="laptop")).to_have_count(0)
    page.get_by_role("button", name="New token…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What it is for", exact=True).fill("my script")
    dialog.get_by_role("combobox").select_option("reading alone")
    expect(dialog.locator("code")).to_have_text("tarmac tokens add 'my script' --for 90d --scope read")


def test_users_are_added_changed_and_removed(open_page: Open, client: Client) -> None:
    page = open_page("/admin/users")
    page.get_by_role("button", name="Add a user…").click()
    fill(page.get_by_role("dialog"), "Add a user", Name="eve", New_password="correct horse battery")
    dialog = change(page, "eve", "Change")
    dialog.get_by_role("combobox").select_option("viewer")
    expect(dialog.locator("code")).to_contain_text("tarmac users set eve --role viewer")
    fill(dialog, "Change")
    expect(page.get_by_role("row", name="eve")).to_contain_text("viewer")
    fill(change(page, "eve", "Disable"), "Disable")
    expect(page.get_by_role("row", name="eve")).to_contain_text("disabled")
    [eve] = [each for each in client.users() if each.name == "eve"]
    assert (eve.role, eve.disabled, eve.has_password) == ("viewer", True, True)
    fill(change(page, "eve", "Remove"), "Remove")
    expect(page.get_by_role("row", name="eve")).to_have_count(0)
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("table")).to_contain_text("DELETE /users/eve")


def test_a_member_sees_no_change_that_only_an_admin_makes(
    open_page: Open, owner: Shell, client: Client
) -> None:
    client.set_user("bob", password="correct horse battery")
    page = open_page()
    lose_session(page)
    page.get_by_label("User").fill("bob")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Administration").click()
    expect(page.get_by_role("button", name="New token…")).to_be_visible()
    page.get_by_role("link", name="Users").click()
    expect(page.get_by_role("row", name="bob")).to_be_visible()
    expect(page.get_by_role("button", name="Add a user…")).to_have_count(0)
    expect(page.get_by_role("button", name="Changes")).to_have_count(0)
    expect(page.get_by_role("link", name="Audit log")).to_have_count(0)


def test_i4_projects_have_their_ids_and_members(open_page: Open) -> None:
    page = open_page("/projects")
    row = page.get_by_role("row", name="vision")
    expect(row.locator("code")).to_have_text("vision")
    row.get_by_role("link", name="show").last.click()
    page.get_by_role("button", name="Set a member…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User", exact=True).fill("ada")
    expect(dialog.locator("code")).to_have_text("tarmac members set vision ada --role member")
    fill(dialog, "Set a member")
    fill(change(page, "ada", "End"), "End")
    expect(page.get_by_text("All members of the server may use this project.")).to_be_visible()
    row.get_by_role("link").first.click()
    expect(page.locator(".table-row")).to_have_count(1)


def test_usage_is_shown_by_user_project_pool_and_day_and_as_csv(open_page: Open) -> None:
    page = open_page("/usage/project")
    table = page.get_by_role("table", name="Usage")
    expect(table).to_contain_text("vision")
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0] == "project,slot_hours,runs"
    assert any(re.fullmatch(r'"vision",[\d.e-]+,\d+', line) for line in lines)
    page.get_by_role("link", name="By day").click()
    expect(table.locator("tbody tr").first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d"))


def test_granted_credits_are_listed_with_what_is_left(open_page: Open) -> None:
    page = open_page("/usage")
    page.get_by_role("button", name="Grant credits…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("ada")
    dialog.get_by_label("Credits", exact=True).fill("5")
    expect(dialog.locator("code")).to_have_text("tarmac credits grant 5 --user ada")
    fill(dialog, "Grant credits")
    expect(page.get_by_role("row", name="user:ada")).to_contain_text("5.00")


def test_limits_and_announcements_of_another_client_are_seen_at_once(open_page: Open, client: Client) -> None:
    """These pages ask only once, and again when the stream of changes names them."""
    page = open_page("/admin/limits")
    expect(page.get_by_role("heading", name="Limits")).to_be_visible()
    client.set_limits(user="ada", slots=3)
    expect(page.get_by_role("row", name="user ada")).to_contain_text("3")
    client.announce("the building closes at six")
    expect(page.get_by_role("status").filter(has_text="closes at six")).to_be_visible()
    client.announce("")


def test_the_rules_of_a_pool_are_changed_by_a_form(open_page: Open, client: Client) -> None:
    client.add_cluster("name: lab\nnodes: [{count: 2, slots: 4, pool: big}]\n")
    page = open_page("/admin/pools")
    expect(page.get_by_role("row", name="local/default")).to_be_visible()
    expect(page.get_by_role("button", name="Changes")).to_have_count(1)
    dialog = change(page, "lab/big", "Change")
    dialog.get_by_label("Order").select_option("fair_share")
    dialog.get_by_label("Preemption").select_option("true")
    others = "share_by=project shares.vision=2 shares.speech=0.5 guaranteed=10m"
    dialog.get_by_label("Other rules").fill(f"{others} trun=5s")
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("did you mean 'turn'?")
    dialog.get_by_label("Other rules").fill(others)
    expect(dialog.locator("code")).to_have_text(
        f"tarmac clusters set lab/big policy=fair_share preemption=true {others}"
    )
    fill(dialog, "Change")
    expect(page.get_by_role("row", name="lab/big")).to_contain_text("fair share")
    [pool] = client.cluster("lab").pools
    assert (pool.policy, pool.preemption, pool.share_by) == ("fair_share", True, "project")
    assert (pool.shares, pool.guaranteed_s) == ({"vision": 2.0, "speech": 0.5}, 600.0)
    dialog = change(page, "lab/big", "Change")
    dialog.get_by_label("Order").select_option("priority")
    expect(dialog.locator("code")).to_have_text("tarmac clusters set lab/big policy=priority")
    fill(dialog, "Change")
    expect(page.get_by_role("row", name="lab/big")).to_contain_text("priority")
    [pool] = client.cluster("lab").pools
    assert (pool.policy, pool.shares) == ("priority", {})
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("table")).to_contain_text("PATCH /clusters/lab/pools")
    client.remove_cluster("lab")

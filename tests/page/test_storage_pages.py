"""Artifacts, datasets, limits and announcements in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]
KEEPS = """
name: keeps
command: mkdir $CHECKPOINT_ARTIFACT_PATH/sub && echo weights > $CHECKPOINT_ARTIFACT_PATH/sub/'w <1>.bin'
"""


def test_a_file_of_an_artifact_is_downloaded(open_page: Open, client: Client) -> None:
    run = client.submit(KEEPS).id
    page = open_page(f"/run/{run}")
    expect(page.locator(".bar .status")).to_have_text(re.compile("completed"), timeout=60_000)
    page.goto(page.url.replace(f"/run/{run}", "/artifacts"))
    search, version = page.get_by_role("searchbox"), page.get_by_role("link", name=f"{run}.checkpoint.1")
    for text in ("KEEP", run, f"{run}.check", "checkpoint"):
        search.fill(text)
        expect(version).to_be_visible()
    for text in ("crud", "another"):
        search.fill(text)
        expect(version).to_have_count(0)
    search.fill("")
    version.click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="sub/w <1>.bin").click()
    assert saved.value.path().read_text() == "weights\n"
    page.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("code")).to_have_text(f"tarmac artifacts rm {run}.checkpoint.1")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("No run has kept such an artifact.")).to_be_visible()


def test_a_dataset_is_added_and_removed(open_page: Open, owner: Shell) -> None:
    (owner.directory / "data").mkdir()
    page = open_page("/datasets")
    page.get_by_role("button", name="Add a dataset…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Id").fill("digits")
    dialog.get_by_label("Source").fill(str(owner.directory / "data"))
    dialog.get_by_role("button", name="Add a dataset", exact=True).click()
    row = page.get_by_role("row", name="/data/digits")
    expect(row).to_contain_text("available")
    row.get_by_role("button", name="Changes").click()
    page.get_by_role("button", name="Remove…").click()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)


def test_limits_are_set_and_removed(open_page: Open) -> None:
    page = open_page("/admin/limits")
    page.get_by_role("button", name="Set limits…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Of project").fill("quiet")
    dialog.get_by_label("Waiting runs").fill("7")
    expect(dialog.locator("code")).to_have_text("tarmac limits set --project quiet --queued 7")
    dialog.get_by_role("button", name="Set limits", exact=True).click()
    row = page.get_by_role("row", name="project quiet")
    expect(row).to_contain_text("7")
    row.get_by_role("button", name="Changes").click()
    page.get_by_role("button", name="Remove…").click()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)


def test_an_announcement_is_seen_at_once(open_page: Open) -> None:
    page = open_page("/admin/announcement")
    page.get_by_role("button", name="Announce…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Text").fill("down at noon <b>")
    dialog.get_by_role("button", name="Announce", exact=True).click()
    expect(page.locator(".announcement")).to_contain_text("down at noon <b>")
    page.get_by_role("button", name="Changes").click()
    page.get_by_role("button", name="Clear…").click()
    dialog.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator(".announcement")).to_have_count(0)

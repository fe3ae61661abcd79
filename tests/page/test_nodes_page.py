"""Nodes in a browser: the map of slots, drained nodes, and slots that are held without use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tarmac.client import Client

Open = Callable[..., Page]
HOLDS = "name: {name}\nslots: {slots}\ncommand: sleep 600\n"


@pytest.fixture(autouse=True)
def holder(client: Client) -> Iterator[str]:
    """A run that holds two slots and uses none."""
    run = client.submit(HOLDS.format(name="sleeps", slots=2)).id
    yield run
    client.stop(run)


def box(page: Page) -> str:
    """What the only node says of itself, once the run is there."""
    node = page.locator(".node")
    expect(node).to_have_attribute("aria-label", re.compile(r"sleeps \(\S+\) 2"))
    return node.get_attribute("aria-label") or ""


def test_what_runs_where_is_seen_on_a_map_and_in_a_link(open_page: Open, client: Client) -> None:
    page = open_page("/nodes")
    assert "2 of 8 slots used" in box(page)
    held = page.locator(".node .slot-used, .node .slot-idle")
    expect(held).to_have_count(2)
    expect(page.locator(".node .slot-free")).to_have_count(6)
    held.first.hover()
    expect(page.locator(".pointed")).to_have_text(re.compile(r"slot \d: sleeps of "))
    page.locator(".node").click()
    expect(page.locator(".node-details")).to_contain_text("sleeps")
    page.reload()
    page.locator(".node-details").get_by_role("link", name="sleeps").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sleeps")


def test_slots_that_are_held_without_use_have_an_owner(open_page: Open, client: Client) -> None:
    page = open_page("/nodes")
    section = page.locator("section").filter(has=page.get_by_role("heading", name="Held without use"))
    owner = client.run("sleeps").user
    idle = section.get_by_role("row").filter(has_text="sleeps")
    expect(idle).to_contain_text(owner, timeout=60_000)  # nodes measure every few seconds
    expect(page.locator(".slot-chart")).to_have_attribute("aria-label", re.compile("slots in use"))


def test_a_node_is_drained_with_a_reason_and_taken_back(open_page: Open, client: Client) -> None:
    page = open_page("/nodes")
    box(page)
    page.locator(".node").focus()
    expect(page.locator(".pointed")).to_contain_text("sleeps")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Drain…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("it's new")
    expect(dialog.locator("code")).to_have_text(
        re.compile(r"^tarmac nodes drain \S+ --reason 'it'\\''s new'$")
    )
    dialog.get_by_role("button", name="Drain", exact=True).click()
    details = page.locator(".node-details")
    expect(details).to_contain_text("it's new")
    expect(details).to_contain_text("Drained by")
    expect(page.locator(".node .slot-drained")).to_have_count(6)
    details.get_by_role("button", name="Undrain…").click()
    dialog.get_by_role("button", name="Undrain", exact=True).click()
    expect(page.locator(".node .slot-free")).to_have_count(6)
    assert [node.state for node in client.nodes()] == ["up"]


def test_a_drain_by_another_client_is_seen_at_once(open_page: Open, client: Client) -> None:
    """Before the next reading of all nodes, which comes every 5 s."""
    page = open_page("/nodes")
    box(page)
    [node] = client.nodes()
    for _ in range(2):
        client.drain(node.name, reason="a new fan")
        expect(page.locator(".node .slot-drained")).to_have_count(6, timeout=3_000)
        client.undrain(node.name)
        expect(page.locator(".node .slot-free")).to_have_count(6, timeout=3_000)

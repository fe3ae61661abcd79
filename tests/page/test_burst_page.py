"""Rented machines in a browser: shapes with their rates and stock, rentals, and approvals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from rented_nothing import WORDS, rent_nothing
from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]
RENTS = "name: {}\nslots: cpu:2\nmode: burst\ntime_limit: 3h\ncommand: sleep 600\n"


@pytest.fixture(scope="module", autouse=True)
def provider(owner: Shell, client: Client) -> None:
    """A provider with two shapes, whose machines are never free."""
    rent_nothing(owner, client)


def test_shapes_have_their_ids_rates_and_dates(open_page: Open) -> None:
    """I13: with a filter in the address; texts of an administrator are only text."""
    page = open_page("/shapes")
    shapes = page.get_by_role("table", name="Shapes")
    expect(shapes.get_by_role("row")).to_have_count(3)
    small = shapes.get_by_role("row", name="lab-small")
    for text in ("here", "2 cpu", "on demand", "0.12 USD", "0.50", "2026-11-01", "not tried"):
        expect(small).to_contain_text(text)
    big = shapes.get_by_role("row", name="lab-h100")
    for text in ("there", "8 h100", "spot", "19.60 USD", "2026-10-31", "EPYC <b>9654</b>"):
        expect(big).to_contain_text(text)
    page.get_by_role("searchbox").fill("H100")
    expect(small).to_have_count(0)
    expect(big).to_be_visible()
    assert "text=H100" in page.url


def test_a_run_is_approved_on_its_own_page_and_the_stock_is_seen(open_page: Open, client: Client) -> None:
    """I13: what it may cost and the command are shown first; then every try, and the stock found."""
    run = client.submit(RENTS.format("rents"))
    page = open_page(f"/run/{run.id}")
    page.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog")
    row = dialog.get_by_role("row", name="1 × lab-small")
    expect(row).to_contain_text("0.12 USD")
    expect(row).to_contain_text("0.36 USD")
    expect(dialog.locator("code")).to_have_text(f"tarmac burst approve {run.id}")
    assert client.rentals() == []
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Approve…")).to_have_count(0)
    page.goto(page.url.replace(f"/run/{run.id}", "/shapes"))
    tried = page.get_by_role("table", name="Rentals").get_by_role("row", name="1 × lab-small")
    expect(tried).to_contain_text(f"no capacity: the command create: {WORDS}")
    found = page.get_by_role("table", name="Shapes").get_by_role("row", name="lab-small")
    expect(found).to_contain_text(f"none: the command create: {WORDS}")


def test_all_runs_that_wait_are_approved_at_once(open_page: Open, client: Client) -> None:
    runs = [client.submit(RENTS.format(name)).id for name in ("one", "two")]
    page = open_page("/shapes")
    waiting = page.get_by_role("table", name="Runs to approve").get_by_role("row")
    expect(waiting).to_have_count(3)
    page.get_by_role("button", name="Approve 2 runs…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="1 × lab-small")).to_have_count(2)
    expect(dialog.locator("code")).to_have_text(f"tarmac burst approve {runs[1]} {runs[0]}")
    dialog.get_by_role("button", name="Approve 2 runs", exact=True).click()
    expect(page.get_by_role("table", name="Runs to approve")).to_have_count(0)
    assert client.staged_runs() == []
    assert {rental.run_id for rental in client.rentals()} >= set(runs)


def test_rates_are_refreshed(open_page: Open) -> None:
    page = open_page("/shapes")
    page.get_by_role("button", name="Refresh rates…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("code")).to_have_text("tarmac shapes refresh")
    dialog.get_by_role("button", name="Refresh rates", exact=True).click()
    expect(dialog).to_have_count(0)

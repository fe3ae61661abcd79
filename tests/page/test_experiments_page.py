"""Experiments in a browser: the list, the trials with their parameters and metric, plots, and commands."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tarmac.client import Client

Open = Callable[..., Page]
SEARCH = """
name: {name}
labels: {{evil: "<img src=x onerror=alert(1)>"}}
command: |
  {command}
parameters:
  lr: {{choice: [0.1, 0.01, 0.001]}}
  layers: {{int: [1, 2], count: 2}}
  epochs: 5
search: {{method: grid, metric: loss, max_time: 1}}
"""
REPORT = """python -c 'from tarmac import *; p = parameters(); report(step=1, loss=p["lr"] * p["layers"])'"""


@pytest.fixture(scope="module", autouse=True)
def experiments(client: Client) -> tuple[str, str]:
    """A grid of six trials that report, and one whose trials wait."""
    done = client.create_experiment(SEARCH.format(name="grid", command=REPORT)).id
    return done, client.create_experiment(SEARCH.format(name="sleeps", command="sleep 600")).id


def test_i1_experiments_are_listed_and_lead_to_their_trials(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("link", name="Experiments", exact=True).click()
    table = page.get_by_role("table", name="Experiments")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("min loss")
    page.get_by_role("button", name="paused").click()
    expect(page.get_by_text("No experiment passes these filters.")).to_be_visible()
    assert page.url.endswith("/experiments?state=paused")
    page.go_back()
    table.get_by_role("link", name="grid").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("grid")


def test_i1_the_best_trial_is_first_and_any_column_sorts(open_page: Open, client: Client) -> None:
    page = open_page("/experiment/grid")
    expect(page.locator(".bar .status")).to_have_text(re.compile("completed"), timeout=120_000)
    expect(page.locator(".summary")).to_contain_text("Best:")
    best = min(client.trials("grid"), key=lambda trial: trial.best or 9.0)
    rows = page.locator(".table-row")
    expect(rows.first).to_contain_text(best.name)
    expect(rows.first).to_contain_text("0.001")
    head = page.locator(".table-head")
    expect(head).to_contain_text("layers")
    expect(head).not_to_contain_text("epochs")
    head.get_by_role("button", name="lr").click()
    expect(rows.first).to_contain_text("0.1")
    assert page.url.endswith("?sort=-p.lr")
    page.locator(".table").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/run/"))


def test_i1_plots_show_each_trial_and_mark_the_one_pointed_at(open_page: Open) -> None:
    page = open_page("/experiment/grid/plots")
    expect(page.locator("polyline")).to_have_count(6)
    expect(page.locator("circle")).to_have_count(12)
    page.locator("circle").last.hover()
    expect(page.locator(".pointed")).to_have_count(3)
    expect(page.locator(".plots p")).to_contain_text("layers 1, lr 0.001, loss 0.001")
    page.locator("circle").last.click()
    expect(page).to_have_url(re.compile("/run/"))


def test_i1_a_command_is_shown_before_it_pauses_and_stops(open_page: Open) -> None:
    page = open_page("/experiment/sleeps")
    for verb, word, then in (("Pause", "pause", "paused"), ("Stop", "stop", "stopped")):
        page.get_by_role("button", name=f"{verb}…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("code")).to_have_text(re.compile(f"^tarmac experiment {word} r"))
        dialog.get_by_role("button", name=verb, exact=True).click()
        expect(page.locator(".bar .status")).to_have_text(re.compile(then), timeout=60_000)
    page.get_by_role("link", name="Source").click()
    expect(page.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>")


def test_i1_an_experiment_begins_another_and_a_trial_begins_a_run(open_page: Open, client: Client) -> None:
    page = open_page("/experiment/grid")
    page.get_by_role("link", name="Clone…").click()
    dry_run = page.get_by_role("region", name="Dry run")
    expect(dry_run).to_contain_text("A search: its first trial would start now on")
    page.get_by_label("name", exact=True).fill("again")
    page.get_by_label("layers").fill("2")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("again")
    trials = client.trials("again")
    assert {trial.parameters["layers"] for trial in trials} == {2}
    page.goto(
        page.url.replace(page.url.partition("/experiment/")[2], "").replace(
            "experiment/", f"run/{trials[0].run}"
        )
    )
    page.get_by_role("link", name="Clone…").click()
    expect(dry_run).to_contain_text("Would start now on")
    page.get_by_role("textbox", name="Run file").press("Control+End")
    page.keyboard.type("priority: 3\n")
    expect(dry_run).to_contain_text("A search: its first trial")


def test_the_plots_fit_a_narrow_screen(open_page: Open) -> None:
    page = open_page("/experiment/grid/plots")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.get_by_role("img", name="Parallel coordinates")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

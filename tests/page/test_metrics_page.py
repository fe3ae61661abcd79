"""Curves in a browser: of one run and of compared ones, whole and in part, and as a run reports them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tarmac.client import Client

Open = Callable[..., Page]
HOSTILE = "<img src=x onerror=alert(1)>"

TRAIN = """
import os, time, tarmac
rate = float(os.environ["RATE"])
for step in range(5000):
    loss = float("nan") if step == 3000 else 1 / (1 + rate * step)
    tarmac.report(step=step, loss=loss, spike=100.0 if step == 4321 else 1.0)
tarmac.report(step=1, **{"<img src=x onerror=alert(1)>": 1.0})
tarmac.report(step=7, group="validation", loss=rate)
"""
MANY = """
import tarmac
for step in range(3):
    tarmac.report(step=step, **{f"layer{n // 20}/weight{n % 20}": step * n for n in range(400)})
"""
LIVE = """
import os, time, tarmac
tarmac.report(step=0, loss=1.0)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
for step in (1, 2, 3):
    tarmac.report(step=step, loss=1.0)
time.sleep(600)
"""


def submit(client: Client, name: str, code: str, **variables: str) -> str:
    command = json.dumps([sys.executable, "-c", code])
    return client.submit(
        f"name: {name}\ncommand: {command}\nenvironment: {{variables: {json.dumps(variables)}}}\n"
    ).id


@pytest.fixture(scope="module")
def runs(client: Client) -> Iterator[dict[str, str]]:
    """Two runs whose learning rates differ, and one with many metrics, by name."""
    made = {rate: submit(client, f"rate-{rate}", TRAIN, RATE=rate) for rate in ("0.1", "0.2")}
    made["many"] = submit(client, "many", MANY)
    for run in made.values():
        assert client.wait(run).outcome == "completed"
    yield made
    for run in made.values():
        client.remove(run)


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True).first


def test_every_metric_has_a_curve_that_says_how_many_points_it_shows(
    open_page: Open, runs: dict[str, str]
) -> None:
    page = open_page(f"/run/{runs['0.1']}")
    page.get_by_role("link", name="Metrics").click()
    expect(chart(page, "loss")).to_contain_text(re.compile(r"1 not finite · \d+ of 5\s000 points"))
    expect(chart(page, "loss").locator("canvas")).to_be_visible()
    expect(page.locator("summary").last).to_contain_text("validation")
    expect(chart(page, HOSTILE)).to_contain_text("1 point")
    assert page.locator("img[src=x]").count() == 0
    page.get_by_role("button", name="Log").click()
    page.get_by_label("Smoothing").fill("0.5")
    expect(chart(page, "loss")).to_contain_text("smoothed 0.5, of the points shown")
    page.get_by_role("button", name="Time").click()
    assert "log=1&smooth=0.5&axis=time" in page.url


def test_zooming_reads_finer_points_and_is_in_the_link(open_page: Open, runs: dict[str, str]) -> None:
    page = open_page(f"/run/{runs['0.1']}/metrics")
    page.get_by_label("From step").fill("100")
    page.get_by_label("From step").press("Enter")
    page.get_by_label("To step").fill("200")
    page.get_by_label("To step").press("Enter")
    expect(chart(page, "loss")).to_contain_text("103 points")
    page.reload()
    expect(chart(page, "loss")).to_contain_text("103 points")
    page.get_by_role("button", name="Whole range").click()
    expect(chart(page, "loss")).to_contain_text("of 5 000 points".replace(" 0", "\u202f0"))
    plot = chart(page, "spike").locator(".u-over")
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 20, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"from=2[45]\d\d&to=37\d\d$"))
    expect(chart(page, "loss")).to_contain_text(re.compile(r"\d of 12[45]\d points|\d of 1\s2[45]\d points"))
    plot.dblclick()
    expect(page).to_have_url(re.compile("/metrics$"))


def test_only_charts_in_view_are_drawn_and_names_are_searched(open_page: Open, runs: dict[str, str]) -> None:
    page = open_page(f"/run/{runs['many']}/metrics")
    expect(chart(page, "layer0/weight0").locator("canvas")).to_be_visible()
    assert page.locator(".chart").count() == 400
    assert page.locator("canvas").count() < 30
    chart(page, "layer19/weight19").scroll_into_view_if_needed()
    expect(chart(page, "layer19/weight19").locator("canvas")).to_be_visible()
    expect(chart(page, "layer0/weight0").locator("canvas")).to_have_count(0)
    page.get_by_label("Names of metrics").fill("layer7 weight3")
    expect(page.get_by_role("status").filter(has_text="metric")).to_have_text("1 metric")
    expect(chart(page, "layer7/weight3").locator("canvas")).to_be_visible()


def test_selected_runs_are_compared_against_a_baseline(open_page: Open, runs: dict[str, str]) -> None:
    page = open_page("/?text=rate-0")
    page.locator(".table").focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_label("Compared runs")).to_contain_text("rate-0.2")
    expect(chart(page, "loss")).to_contain_text(re.compile(r"of 10\s000 points"))
    page.get_by_label("Compared runs").get_by_text("rate-0.1").hover()
    expect(page.locator("[data-hovered]")).to_contain_text("rate-0.1")
    page.get_by_role("button", name="pin rate-0.1 as the baseline").click()
    page.get_by_role("button", name="Table").click()
    row = page.locator(".table-row").filter(has_text="validation/").filter(has_text="rate-0.2")
    expect(row).to_contain_text("+100 %")
    page.get_by_role("button", name="Parameters").click()
    names = page.get_by_role("table", name="Parameters").locator("tbody td:first-child")
    expect(names).to_have_text(["name", "environment.variables.RATE"])
    page.reload()
    expect(names).to_have_count(2)
    page.get_by_role("button", name="Remove rate-0.1 from the comparison").click()
    expect(page.get_by_label("Compared runs")).to_have_count(0)
    page.get_by_label("Name or id of another run").fill("many")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"run={runs['0.2']}&run={runs['many']}"))


def test_new_points_appear_while_a_run_goes_on(open_page: Open, client: Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    run = submit(client, "live", LIVE, GO=str(go))
    page = open_page(f"/run/{run}/metrics")
    expect(chart(page, "loss")).to_contain_text("1 point")
    go.touch()
    expect(chart(page, "loss")).to_contain_text("4 points")
    client.stop(run)
    client.wait(run)
    client.remove(run)


def test_a_narrow_screen_has_one_column_of_charts(open_page: Open, runs: dict[str, str]) -> None:
    page = open_page(f"/run/{runs['0.1']}/metrics")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(chart(page, "loss").locator("canvas")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = chart(page, "loss").bounding_box()
    assert box is not None
    assert box["width"] <= 390

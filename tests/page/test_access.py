"""Every page for everyone: axe-core finds nothing, in light and dark, wide, narrow and enlarged.

A new page joins with a row in PATHS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tarmac.client import Client

Open = Callable[..., Page]

AXE = Path(__file__).resolve().parents[2] / "web/node_modules/axe-core/axe.min.js"

PATHS = {
    "runs": ("/?text=access", ".table-row a"),
    "no runs": ("/?text=no-such-run", ".table-empty p"),
    "run": ("/run/access", ".panel"),
    "failed": ("/run/access-fails", ".panel.cause"),
    "files": ("/run/access/files", ".plain"),
    "terminal": ("/run/access/terminal", "[role=status]:not(:empty)"),
    "spec": ("/run/access/spec", ".source"),
    "difference": ("/run/access/difference?with=access-fails", ".difference"),
    "history": ("/run/access", ".states .period"),
    "new": ("/new", ".cm-content"),
    "clone": ("/new?clone=access", "section.panel"),
    "no page": ("/no-such-page", "h1"),
    "queue": ("/queue", ".tabs a"),
    "nodes": ("/nodes", ".node"),
    "usage": ("/usage", "[aria-label=Usage]"),
    "projects": ("/projects/default", "h2"),
    "artifacts": ("/artifacts", ".list p"),
    "tokens": ("/admin", ".list p"),
    "pools": ("/admin/pools", "tbody tr"),
}
"""The path of each page or part of one, and what shows that it is complete."""

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
DOUBLED = {"width": 640, "height": 400}
"""A window of 1280 x 800 pixels at 200 %."""


@pytest.fixture(scope="module", autouse=True)
def runs(client: Client) -> None:
    source = "labels: {team: vision}\nenv: {LR: '0.1'}\nparameters: {lr: 0.1}\ncommand: echo done > result"
    for name, end in (("access", ""), ("access-fails", "; exit 3")):
        run = client.submit(f"name: {name}\n{source}{end}\n")
        client.note(run.id, "a note")
        client.wait(run.id)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that knows axe-core, without animations."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make page")
    made = browser.new_context(reduced_motion="reduce")
    made.add_init_script(path=AXE)
    made.set_default_timeout(30_000)
    yield made
    made.close()


WIDER = """() => [document.documentElement, ...document.querySelectorAll('main, main > *, .columns')]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 100))"""
"""The parts of a page that are wider than their place."""


def faults(page: Page) -> list[str]:
    """What axe-core finds on the page as it is, with the elements concerned."""
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']} ({each['impact']}): {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical", "moderate")
    ]


def shown(open_page: Open, name: str) -> Page:
    path, complete = PATHS[name]
    page = open_page(path)
    expect(page.locator(complete).first).to_be_visible()
    return page


@pytest.mark.parametrize("name", PATHS)
def test_axe_finds_nothing_and_all_fits_the_window(open_page: Open, name: str) -> None:
    page = shown(open_page, name)
    found = {}
    for way, (size, colours) in {
        "light": (WIDE, "light"),
        "dark": (WIDE, "dark"),
        "narrow": (NARROW, "light"),
        "200 %": (DOUBLED, "light"),
    }.items():
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
        found[way] = faults(page) + page.evaluate(WIDER)
    assert {way: each for way, each in found.items() if each} == {}


def test_forced_colours_keep_what_is_chosen(open_page: Open) -> None:
    page = shown(open_page, "history")
    page.emulate_media(forced_colors="active")
    tabs = page.locator(".tabs a")
    colours = tabs.evaluate_all(
        "(all) => all.map((tab) => [tab.ariaCurrent, getComputedStyle(tab).borderBottomColor])"
    )
    chosen = {colour for current, colour in colours if current}
    assert chosen.isdisjoint(colour for current, colour in colours if not current)


def test_nothing_moves_where_motion_is_reduced(open_page: Open) -> None:
    page = shown(open_page, "clone")
    page.locator(".cm-content").focus()
    expect(page.locator(".cm-focused")).to_be_visible()
    assert page.evaluate("() => document.getAnimations().map(({animationName}) => animationName)") == []


@pytest.mark.parametrize("name", ["runs", "run", "files", "clone"])
def test_tab_reaches_every_control_and_shows_it(open_page: Open, name: str) -> None:
    """Also those after the editor: it does not hold the focus."""
    page = shown(open_page, name)
    page.evaluate(TAB_STOPS)
    for _ in range(page.evaluate("() => stops.size") + 5):
        page.keyboard.press("Tab")
        page.evaluate("() => stops.delete(document.activeElement) && look(document.activeElement)")
    assert page.evaluate("() => [[...stops].map((each) => each.outerHTML), unseen]") == [[], []]


TAB_STOPS = """() => {
  const controls = 'a[href], button:enabled, input, select, summary, .cm-content, .table';
  const all = document.querySelectorAll(controls);
  window.stops = new Set([...all].filter((each) => each.checkVisibility() && each.tabIndex >= 0));
  window.unseen = [];
  window.look = (element) => {
    const outlined = getComputedStyle(element).outlineStyle !== 'none';
    if (!outlined && !element.closest('.editor:focus-within')) unseen.push(element.outerHTML);
  };
}"""
"""Notes the controls of a page, and those that do not show that they have the focus."""

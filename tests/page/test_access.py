"""Every page for everyone: axe-core finds nothing, light and dark, at any width, and all works by keyboard.

A new page joins with a row in PATHS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from page_acts import lose_session
from rented_nothing import rent_nothing
from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]

WEB = Path(__file__).resolve().parents[2] / "web"
AXE = WEB / "node_modules/axe-core/axe.min.js"

PATHS = {
    "runs": ("/?text=access", ".table-row a"),
    "no runs": ("/?text=no-such-run", ".table-empty p"),
    "run": ("/run/access", ".panel"),
    "failed": ("/run/access-fails", ".panel.cause"),
    "waiting": ("/run/access-waits", ".panel.waits"),
    "to approve": ("/run/access-rents", "button:has-text('Approve')"),
    "logs": ("/run/access/logs", ".log-text"),
    "metrics": ("/run/access/metrics", ".chart canvas"),
    "files": ("/run/access/files", ".plain"),
    "terminal": ("/run/access/terminal", "[role=status]:not(:empty)"),
    "spec": ("/run/access/spec", ".source"),
    "difference": ("/run/access/difference?with=access-fails", ".difference"),
    "history": ("/run/access", ".states .period"),
    "compare": ("/compare?run=access&run=access-fails", ".chart canvas"),
    "new": ("/new", ".cm-content"),
    "clone": ("/new?clone=access", "section.panel"),
    "queue": ("/queue", ".table-row a"),
    "nodes": ("/nodes", ".node"),
    "experiments": ("/experiments", "tbody a"),
    "experiment": ("/experiment/access-grid", ".table-row a"),
    "plots": ("/experiment/access-grid/plots", "circle"),
    "source": ("/experiment/access-grid/source", ".source"),
    "projects": ("/projects", "tbody tr"),
    "members": ("/projects/default", "section:nth-of-type(2) h2"),
    "usage": ("/usage", "tbody tr"),
    "usage by project": ("/usage/project", "tbody tr"),
    "usage by pool": ("/usage/pool", "tbody tr"),
    "usage by day": ("/usage/day", "tbody tr"),
    "usage by month": ("/usage/month", "tbody tr"),
    "artifacts": ("/artifacts", "tbody a"),
    "artifact": ("/artifacts/ID.checkpoint.1", "tbody a"),
    "datasets": ("/datasets", "tbody tr"),
    "shapes": ("/shapes", "button:has-text('Approve')"),
    "tokens": ("/admin", "tbody tr"),
    "users": ("/admin/users", "tbody tr"),
    "organisations": ("/admin/organisations", "h2"),
    "limits": ("/admin/limits", "tbody tr"),
    "pools": ("/admin/pools", "tbody tr"),
    "audit": ("/admin/audit", "tbody tr"),
    "announcement": ("/admin/announcement", ".announcement"),
    "no page": ("/no-such-page", "h1"),
}
"""The path of each page or part of one, and what shows that it is complete. ID: that of the run `access`."""

WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 390, "height": 800}
DOUBLED: ViewportSize = {"width": 640, "height": 400}
"""A window of 1280 x 800 pixels at 200 %."""

MENUS = 3
"""The most menus to open on a page: those of rows are alike."""

RUN = "labels: {team: vision}\nenv: {LR: '0.1'}\nparameters: {lr: 0.1}\ncommand:\n- python3\n- -c\n- |\n  "
CODE = """import os, sys, tarmac
  open("result", "w").write("done")
  print("training")
  for step in range(9): tarmac.report(step=step, loss=1 / (step + 1))
  open(os.environ["CHECKPOINT_ARTIFACT_PATH"] + "/weights", "w").write("weights")
  sys.exit({code})
"""
SEARCH = """
name: access-grid
command: python3 -c 'from tarmac import *; report(step=1, loss=parameters()["lr"])'
parameters: {lr: {choice: [0.1, 0.01]}, layers: {int: [1, 2], count: 2}}
search: {method: grid, metric: loss, max_time: 1}
"""


@pytest.fixture(scope="module")
def client(owner: Shell) -> Iterator[Client]:
    """The client of the owner, which takes the announcement as it is."""
    with Client(home=owner.home, on_notice=lambda _: None) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def facts(client: Client, owner: Shell) -> None:
    """Something to show on every page."""
    for name, code in (("access", 0), ("access-fails", 3)):
        run = client.submit(f"name: {name}\n{RUN}{CODE.format(code=code)}")
        client.note(run.id, "a note")
        client.wait(run.id)
    search = client.create_experiment(SEARCH)
    client.set_user("ada", password="correct horse battery")
    client.add_token("laptop", user="ada")
    client.add_dataset("digits", str(owner.directory))
    client.set_limits(user="ada", queued=7)
    client.grant_credits("user:bob", 5.0)
    client.announce("down at noon")
    rent_nothing(owner, client)
    client.submit("name: access-rents\nslots: cpu:2\nmode: burst\ncommand: sleep 600\n")
    for trial in client.trials(search.id):
        client.wait(trial.run)
    client.submit("name: access-holds\nslots: 2\ncommand: sleep 600\n")
    client.submit("name: access-waits\nslots: 8\ncommand: sleep 600\n")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that knows axe-core, without animations."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make page")
    made = browser.new_context(reduced_motion="reduce", viewport=WIDE)
    made.add_init_script(path=AXE)
    made.set_default_timeout(30_000)
    yield made
    made.close()


WIDER = """() => [document.documentElement, ...document.querySelectorAll('main, main > *, .columns')]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 100))"""
"""The parts of a page that are wider than their place."""

FAULTS = """async ([place, rules]) => {
  const only = rules.length ? {runOnly: {type: 'rule', values: rules}} : {};
  const found = await axe.run(place ?? document, {resultTypes: ['violations'], ...only});
  return found.violations.filter(({impact}) => ['moderate', 'serious', 'critical'].includes(impact))
    .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html}) => html.slice(0, 200))}`);
}"""
"""What axe-core finds in a place, or on the page, with the elements concerned."""


def faults(page: Page, place: str | None = None, rules: tuple[str, ...] = ()) -> list[str]:
    return page.evaluate(FAULTS, [place, rules])


@pytest.fixture
def shown(open_page: Open, client: Client) -> Open:
    """Opens a page of the table, and waits until it is complete."""

    def open_(name: str) -> Page:
        path, complete = PATHS[name]
        page = open_page(path.replace("ID", client.run("access").id))
        expect(page.locator(complete).first).to_be_visible()
        return page

    return open_


@pytest.mark.parametrize("name", PATHS)
def test_every_page_is_for_everyone(shown: Open, name: str) -> None:
    """D16, I1, I2, I4. Tab leaves the editor; a dialog or menu takes the focus, and closes with Escape."""
    page = shown(name)
    found = {"wide": faults(page) + page.evaluate(WIDER), "Tab": unreached(page)}
    for button in page.locator("main button[popovertarget]:visible").all()[:MENUS]:
        found |= opened(page, button, ".menu-list:popover-open")
    for button in page.locator("main button:visible:enabled", has_text=re.compile("…$")).all():
        found |= opened(page, button, "dialog[open]")
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found["dark"] = faults(page, None, ("color-contrast",))
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.set_viewport_size(NARROW)
    found["narrow"] = faults(page) + page.evaluate(WIDER)
    page.set_viewport_size(DOUBLED)
    found["200 %"] = page.evaluate(WIDER)
    found["motion"] = page.evaluate("() => document.getAnimations().map(({animationName}) => animationName)")
    assert {way: each for way, each in found.items() if each} == {}


def test_the_login_is_for_everyone(open_page: Open) -> None:
    page = open_page()
    lose_session(page)
    expect(page.get_by_label("User")).to_be_focused()
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert faults(page) + page.evaluate(WIDER) + unreached(page) == []


def unreached(page: Page) -> list[str]:
    """The controls that Tab does not reach, and those that do not show that they have the focus."""
    page.evaluate(TAB_STOPS)
    for _ in range(page.evaluate("() => stops.size") + 5):
        page.keyboard.press("Tab")
        page.evaluate("() => stops.delete(document.activeElement) && look(document.activeElement)")
    return page.evaluate("() => [...stops, ...unseen].map((each) => each.outerHTML.slice(0, 200))")


TAB_STOPS = """() => {
  const controls = 'a[href], button:enabled, input, select, textarea, summary, .cm-content, .table';
  const all = document.querySelectorAll(controls);
  window.stops = new Set([...all].filter((each) => each.checkVisibility() && each.tabIndex >= 0));
  window.unseen = [];
  window.look = (element) => {
    const outlined = getComputedStyle(element).outlineStyle !== 'none';
    if (!outlined && !element.closest('.editor:focus-within')) unseen.push(element);
  };
}"""
"""Notes the controls of a page, and those that do not show that they have the focus."""


def opened(page: Page, button: Locator, place: str) -> dict[str, list[str]]:
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(place)).to_be_visible()
    expect(page.locator(f"{place} :focus, {place}:focus")).to_have_count(1)
    found = {button.inner_text(): faults(page, place)}
    page.keyboard.press("Escape")
    expect(page.locator(place)).to_have_count(0)
    return found


def test_every_page_and_each_of_its_parts_is_in_the_table(shown: Open) -> None:
    paths = {urlsplit(path).path for path, _ in PATHS.values()}
    source = (WEB / "src/app/routes.tsx").read_text()
    names = set(re.findall(r'^  (\w+): \["\w?", async \(\) =>', source, re.MULTILINE))
    assert len(names) > 10
    assert names - {"runs"} <= {path.split("/")[1] for path in paths}
    for name in ("run", "experiment", "usage", "users"):
        page = shown(name)
        links = page.locator(".tabs a").evaluate_all("(all) => all.map(({pathname}) => pathname)")
        assert links
        parts = {re.sub(r"^/(run|experiment)/[^/]+", r"/\1/ID", path) for path in paths}
        assert {re.sub(r"^/(run|experiment)/[^/]+", r"/\1/ID", link) for link in links} <= parts


def test_forced_colours_keep_what_is_chosen(shown: Open) -> None:
    page = shown("history")
    page.emulate_media(forced_colors="active")
    tabs = page.locator(".tabs a")
    colours = tabs.evaluate_all(
        "(all) => all.map((tab) => [tab.ariaCurrent, getComputedStyle(tab).borderBottomColor])"
    )
    chosen = {colour for current, colour in colours if current}
    assert chosen.isdisjoint(colour for current, colour in colours if not current)


def test_forced_colours_keep_the_states_of_slots_apart(shown: Open) -> None:
    page = shown("nodes")
    page.emulate_media(forced_colors="active")
    looks = page.locator(".legend .slot").evaluate_all(
        """(all) => all.map((slot) => {
          const {backgroundColor, backgroundImage, borderTopStyle, borderTopColor} = getComputedStyle(slot);
          return [backgroundColor, backgroundImage, borderTopStyle, borderTopColor].join(' ');
        })"""
    )
    assert len(looks) == len(set(looks)) == 5, looks


def press_until(page: Page, name: str) -> None:
    """Press Tab until a control with this visible name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        named = page.evaluate("() => document.activeElement.ariaLabel || document.activeElement.innerText")
        if named and named.strip() == name:
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_a_run_is_cloned_and_stopped_by_keyboard_alone(open_page: Open, client: Client) -> None:
    page = open_page("/")
    expect(page.locator(".table-row a").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("access-holds")
    expect(page.locator(".table-row a")).to_have_text(["access-holds"])
    press_until(page, "Runs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("access-holds")
    press_until(page, "Clone…")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("Would")
    page.get_by_label("name", exact=True).focus()
    page.keyboard.type("typed")
    press_until(page, "Submit")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("typed")
    press_until(page, "Stop…")
    page.keyboard.press("Enter")
    press_until(page, "Stop 1 run")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("1 of 1 done")
    page.keyboard.press("Escape")
    assert client.wait("typed").outcome == "stopped"

"""The page with 10,000 runs, many tabs and a long log: it answers at once, and survives a killed server.

`python -m benchmarks.page` measures. The bounds here are far above its budgets: a busy machine passes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page

from filled_homes import Filled, fill
from growing_logs import GrowingLog, log_actions
from page_actions import Action, actions, perform
from page_crowds import Crowd
from shell import Shell
from tarmac.client import Client
from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.home import Home

RUNS = 10_000
TABS = 8
LINES = 250_000
TIMES = 1
ANSWER_MS, FRAME_MS, CHANGE_MS = 3_000, 1_000, 10_000
"""Ten times the budgets."""

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user whose server has many runs."""
    root = tmp_path_factory.mktemp("scale")
    made = Shell(root / "home", root / "project")
    made.directory.mkdir()
    yield made
    made.tarmac("server", "stop")


@pytest.fixture(scope="module")
def filled(owner: Shell) -> Filled:
    """The content of the home, before its server starts."""
    return fill(Home(owner.home), RUNS)


@pytest.fixture(scope="module")
def client(owner: Shell, filled: Filled) -> Iterator[Client]:
    """The client of that user; at the end, all that really runs is stopped."""
    with Client(home=owner.home) as made:
        yield made
        made.drain(*(node.name for node in made.nodes()))
        live = made.runs(states=("starting", "running"), limit=1_000).runs
        for run in [run for run in live if run.cluster == LOCAL_CLUSTER]:
            made.stop(run.id, now=True)
            made.wait(run.id, timeout_s=60)


@pytest.fixture
def tab(context: BrowserContext, client: Client) -> Page:
    """A tab that is logged in."""
    page = context.new_page()
    page.goto(client.page_address().url)
    return page


def quick(tab: Page, action: Action) -> None:
    """Make an action, and insist on the bounds."""
    found = list(perform(tab, action, TIMES))
    what = f"{action.page}: {action.name}"
    if action.change is not None:
        assert min(each.shown for each in found) < CHANGE_MS, what
        return
    assert min(each.answer or 0.0 for each in found) < ANSWER_MS, what
    assert min(each.frame or 0.0 for each in found) < FRAME_MS, what


def test_i1_every_action_on_every_page_is_quick(tab: Page, client: Client, filled: Filled) -> None:
    for action in actions(client, filled):
        quick(tab, action)


def test_a_slow_processor_is_enough_for_the_table_of_runs(tab: Page, client: Client, filled: Filled) -> None:
    tab.context.new_cdp_session(tab).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    for action in actions(client, filled):
        if action.page == "runs":
            quick(tab, action)


def test_i2_a_long_log_is_searched_while_it_grows(tab: Page, client: Client) -> None:
    with GrowingLog(client, LINES) as log:
        for action in log_actions(log):
            quick(tab, action)


def test_a_killed_server_is_survived_by_all_tabs(context: BrowserContext, client: Client) -> None:
    """None of them is loaded again, and one stream serves all."""
    crowd = Crowd(context, client, TABS)
    crowd.step()
    assert crowd.streams <= 2, "the first tab left its stream when it went to another page"
    os.kill(client.version().pid, signal.SIGKILL)
    client.version()
    crowd.step()
    crowd.step()
    assert crowd.reloaded() == 0

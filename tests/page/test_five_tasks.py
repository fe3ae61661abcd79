"""Five tasks of a person who has never seen the page, through visible names: each with its clicks and keys.

benchmarks/README.md compares them with the same tasks on the pages of other systems.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from tarmac.client import Client

Open = Callable[..., Page]

SEARCH = """
name: {name}
command: |
  {command}
parameters: {{lr: {{choice: [0.1, 0.01]}}}}
search: {{method: grid, metric: loss, max_time: 1}}
"""
REPORT = """python3 -c 'from tarmac import *; report(step=1, loss=parameters()["lr"])'"""


@dataclass
class Hand:
    """A person at the start of the page, who counts clicks and keys."""

    page: Page
    clicks: int = 0
    keys: int = 0

    def click(self, name: str, role: str = "button") -> None:
        self.page.get_by_role(role, name=name, exact=True).click()  # type: ignore[arg-type]
        self.clicks += 1

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.keys += len(text)


@pytest.fixture(scope="module", autouse=True)
def day(client: Client) -> None:
    """A day of a small team: trainings, sweeps, a run that waits."""
    done = client.create_experiment(SEARCH.format(name="done", command=REPORT)).id
    for trial in client.trials(done):
        client.wait(trial.run)
    client.wait(client.submit("name: trained\nparameters: {lr: 0.1}\ncommand: 'true'\n").id)
    client.create_experiment(SEARCH.format(name="sweep", command="sleep 600"))
    client.submit("name: idles\nslots: 4\ncommand: sleep 600\n")
    client.submit("name: mine\nslots: 8\ncommand: sleep 600\n")


@pytest.fixture
def hand(open_page: Open) -> Hand:
    page = open_page()
    expect(page.get_by_role("link", name="trained").first).to_be_visible()
    return Hand(page)


def test_why_does_mine_wait(hand: Hand) -> None:
    hand.click("mine", "link")
    expect(hand.page.get_by_role("main")).to_contain_text("it waits for 8 slots")
    expect(hand.page.get_by_role("main")).to_contain_text(re.compile(r"It starts when .*\bidles\b"))
    assert (hand.clicks, hand.keys) == (1, 0)


def test_stop_my_sweep(hand: Hand, client: Client) -> None:
    hand.click("Experiments", "link")
    hand.click("sweep", "link")
    hand.click("Stop…")
    hand.click("Stop")
    expect(hand.page.locator(".bar .status")).to_have_text(re.compile("stopped"), timeout=60_000)
    assert client.experiment("sweep").state == "ended"
    assert (hand.clicks, hand.keys) == (4, 0)


def test_which_of_these_is_best(hand: Hand) -> None:
    hand.click("Experiments", "link")
    hand.click("done", "link")
    expect(hand.page.get_by_role("main")).to_contain_text(re.compile(r"Best: \S+ loss 0\.01"))
    assert (hand.clicks, hand.keys) == (2, 0)


def test_start_it_again_with_half_the_rate(hand: Hand, client: Client) -> None:
    hand.click("trained", "link")
    hand.click("Clone…", "link")
    hand.click("lr", "textbox")
    hand.type("0.05")
    hand.click("Submit")
    hand.page.wait_for_url(re.compile("/run/r"))
    assert client.run("trained").spec["parameters"] == {"lr": 0.05}
    assert (hand.clicks, hand.keys) == (4, 4)


def test_who_holds_the_idle_gpus(hand: Hand, client: Client) -> None:
    hand.click("Nodes", "link")
    held = hand.page.get_by_role("row").filter(has=hand.page.get_by_role("link", name="idles", exact=True))
    expect(held).to_contain_text(client.run("idles").user, timeout=60_000)
    assert (hand.clicks, hand.keys) == (1, 0)

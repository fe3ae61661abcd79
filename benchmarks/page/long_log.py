"""A log of 1 GB that grows: its beginning, its end, a search through all of it, and new lines."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from benchmarks.page.filled import ARGUMENTS  # noqa: F401 - first: it makes the builders of tests known
from benchmarks.page.timing import Figures, figures_of
from growing_logs import GrowingLog, log_actions
from tarmac.client import Client


def long_log(page: Page, client: Client, *, lines: int, times: int) -> Iterator[Figures]:
    """Every action on a log of so many lines, which grows meanwhile."""
    with GrowingLog(client, lines) as log:
        for action in log_actions(log):
            yield figures_of(page, action, times)

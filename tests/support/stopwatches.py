"""How quick a page is: a stopwatch inside it, which begins with an input and looks at every frame.

For tests and measurements. Texts named `shown` are expressions of JavaScript: they hold once the page shows
the result. In them `was` and `is` have facts of the page before the input and now: `count` (beside its
title), `first` (the first row), `rows` (all rows), `head` (the columns), `lines` (the rows of a plain table),
`matches` (of a search in a log), `drained` (slots of drained nodes) and `settled` (nothing is loading).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

LIMIT_MS = 60_000

_WATCH = """() => {
  window.stopwatch?.leave.abort();
  const facts = () => {
    const rows = [...document.querySelectorAll(".table-row")].map((row) => row.textContent);
    return {
      count: document.querySelector("h1 .quiet")?.textContent ?? "",
      first: document.querySelector(".table-row a, tbody a")?.textContent ?? "",
      rows: rows.join("\\n"),
      head: document.querySelector(".table-head")?.textContent ?? "",
      lines: document.querySelectorAll("tbody tr").length,
      matches: document.querySelector(".log-count")?.textContent ?? "",
      drained: document.querySelectorAll(".slot-drained").length,
      settled: !document.querySelector(".pending, .loading, .table-empty"),
    };
  };
  const was = facts();
  const watch = { began: null, frame: null, shown: null, blocked: 0, leave: new AbortController() };
  window.stopwatch = watch;
  performance.clearResourceTimings();
  const painted = (then) =>
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => then(performance.now());
      channel.port2.postMessage(null);
    });
  const begin = (event) => {
    if (watch.began !== null) return;
    watch.began = event.timeStamp;
    painted((at) => (watch.frame = at));
  };
  for (const kind of ["keydown", "click", "wheel", "popstate"])
    addEventListener(kind, begin, { capture: true, signal: watch.leave.signal });
  const blocks = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      if (watch.began !== null && startTime + duration > watch.began)
        watch.blocked = Math.max(watch.blocked, duration);
  });
  blocks.observe({ type: "longtask" });
  watch.leave.signal.addEventListener("abort", () => blocks.disconnect());
  const shown = (is) => SHOWN;
  const look = () => {
    if (watch.leave.signal.aborted) return;
    if (watch.began !== null && shown(facts())) painted((at) => (watch.shown = at));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""

_READ = """() => {
  const { began, frame, shown, blocked } = window.stopwatch;
  const answers = performance.getEntriesByType("resource").filter(({ name, startTime, responseEnd }) =>
    name.includes("/api/v1/") && !name.includes("/changes") && startTime >= began - 1 && responseEnd > 0);
  const answer = answers.length ? Math.max(...answers.map(({ duration }) => duration)) : null;
  return [answer, frame === null ? null : Math.max(frame - began, blocked), shown - began,
    performance.timeOrigin + shown];
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One action, in milliseconds.

    `answer`: the slowest answer of the server that it needed (None: none). `frame`: from the input to the
    next painted frame, or the longest time for which the page was busy until it had the result. `shown`: from
    the input to the frame with the result.
    """

    answer: float | None
    frame: float | None
    shown: float


def time_action(page: Page, act: Callable[[], object], shown: str) -> Timing:
    """Time an input until the page shows its result."""
    _begin(page, shown)
    act()
    answer, frame, lasted, _ = _end(page)
    return Timing(answer=answer, frame=frame, shown=lasted)


def time_change(page: Page, change: Callable[[], object], shown: str) -> float:
    """The milliseconds from the beginning of a change by another client until the page shows it."""
    _begin(page, shown)
    page.evaluate("() => { window.stopwatch.began = performance.now() }")
    began_ms = time.time() * 1000
    change()
    return float(_end(page)[3]) - began_ms


def time_load(page: Page, url: str, shown: str) -> Timing:
    """Time the whole loading of a document."""
    page.goto(url, wait_until="commit")
    _begin(page, shown)
    page.evaluate("() => { window.stopwatch.began = 0 }")
    answer, _, lasted, _ = _end(page)
    document = page.evaluate(
        "() => performance.getEntriesByType('navigation').map((it) => it.responseEnd - it.requestStart)[0]"
    )
    return Timing(answer=max(answer or 0.0, document), frame=None, shown=lasted)


def await_shown(page: Page, shown: str) -> None:
    """Wait until an expression without `was` holds."""
    _begin(page, shown)
    page.evaluate("() => { window.stopwatch.began = performance.now() }")
    _end(page)


def _begin(page: Page, shown: str) -> None:
    page.evaluate(_WATCH.replace("SHOWN", f"({shown})"))


def _end(page: Page) -> Any:
    page.wait_for_function("() => window.stopwatch.shown !== null", polling=20, timeout=LIMIT_MS)
    return page.evaluate(_READ)

"""A log of any length that grows while it is read. For tests and measurements of the page."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Page

from page_actions import Action
from page_acts import Act, key, several
from tarmac.client import Client

LINES_AT_ONCE = 100_000
NEEDLE = b"needle in the log\n"
SLEEPS = "name: writes\npool: big\ncommand: echo begin && sleep 86400\n"


class GrowingLog:
    """The log of a run: many lines of 200 bytes, two needles, and 20 more lines a second while it is open."""

    def __init__(self, client: Client, lines: int) -> None:
        self.run = client.submit(SLEEPS).id
        while client.run(self.run).state != "running":
            Event().wait(0.05)
        [attempt] = client.attempts(self.run)
        assert attempt.directory is not None
        self._path = Path(attempt.directory) / "logs" / "main.0.0.log"
        self._stop = Event()
        self._thread = Thread(target=self._grow, daemon=True)
        padding = b"." * 160
        block = b"".join(
            b"step %08d loss %.4f %s\n" % (number, 1 / (number + 1), padding)
            for number in range(LINES_AT_ONCE)
        )
        with self._path.open("ab") as log:
            for at in range(0, lines, LINES_AT_ONCE):
                log.write(block[: len(block) * min(LINES_AT_ONCE, lines - at) // LINES_AT_ONCE])
                if at == lines // LINES_AT_ONCE // 2 * LINES_AT_ONCE or at == 0:
                    log.write(b"\n" + NEEDLE)

    def write(self, line: bytes) -> None:
        with self._path.open("ab") as log:
            log.write(line)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _grow(self) -> None:
        number = 0
        while not self._stop.wait(0.05):
            self.write(b"later %08d\n" % number)
            number += 1


def _type(text: str) -> Act:
    return several(
        lambda page: page.get_by_role("searchbox").fill(text[:-1]), key(text[-1], on="[type=search]")
    )


def _clear(page: Page) -> None:
    page.get_by_role("searchbox").fill("")


def log_actions(log: GrowingLog) -> list[Action]:
    """The actions on the page of a log."""
    path = f"/run/{log.run}/logs"
    texts = "document.querySelectorAll('.log-text')"
    last = "/later/.test([...document.querySelectorAll('.log-text')].at(-1)?.textContent ?? '')"
    first = "document.querySelector('.log-text')?.textContent === 'begin'"
    count = "document.querySelector('.log-count')?.textContent"
    number = f"Number(({count} ?? '').replace(/ lines.*/, ''))"
    over = f"/ lines$/.test({count} ?? '')"

    def of(name: str, **fields: Any) -> Action:
        return Action(page="log", name=name, path=path, **{"ready": last, **fields})

    return [
        of("load", shown=last),
        of(
            "go to its beginning",
            act=key("Home", on=".log"),
            shown=first,
            undo=key("End", on=".log"),
            after=last,
        ),
        of(
            "go to its end",
            before=key("Home", on=".log"),
            prepared=first,
            act=key("End", on=".log"),
            shown=last,
        ),
        of(
            "a new line, followed",
            change=lambda turn: log.write(b"change %d\n" % turn),
            shown=f"[...{texts}].some((line) => line.textContent === 'change {{turn}}')",
        ),
        of("a search, its last match", act=_type("needle"), shown=f"{number} > 0", undo=_clear),
        of("a search through all of it", act=_type("needle"), shown=f"{over} && {number} > 0", undo=_clear),
        of(
            "scroll during a search",
            before=_type("needle"),
            prepared="true",
            act=key("PageUp", on=".log"),
            shown="true",
            undo=several(_clear, key("End", on=".log")),
            after=last,
        ),
        of(
            "a new match of a search",
            before=lambda page: (
                None if page.get_by_role("searchbox").input_value() else _type("needle")(page)
            ),
            prepared=f"{over} && {number} > 0",
            change=lambda turn: log.write(NEEDLE),
            shown=f"{over} && is.matches !== was.matches",
        ),
    ]

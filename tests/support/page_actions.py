"""The actions of a person on every page of a server with many runs, for a stopwatch. See `stopwatches`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from playwright.sync_api import Page

from filled_homes import BUSY, Filled
from page_acts import Act, back, back_to, button, chosen, click, facet, head, key, link, several, wheel
from stopwatches import Timing, await_shown, time_action, time_change, time_load
from tarmac.client import Client

ROWS = "is.settled && is.first"
DIALOG = "document.querySelector('dialog[open]')"
SEARCH = (
    "name: searched-{turn}\npool: busy\nslots: 8\ncommand: sleep 60\n"
    "parameters: {{lr: {{choice: [0.1, 0.01]}}}}\nsearch: {{method: grid, metric: loss, max_time: 1}}\n"
)
WAITS = "name: {name}\npool: busy\nslots: 8\ntime_limit: 1h\nlabels: {{kind: timed}}\ncommand: sleep 60\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action on a page at `path`, which is there once `ready` holds; `shown`: its result.

    `before` prepares each turn until `prepared` holds, and `undo` ends it until `after` does: they are not
    timed. Without `act`, loading is the action. A `change` is made by another client; `{turn}` in `shown` is
    the number of the turn.
    """

    page: str
    name: str
    path: str
    ready: str = ROWS
    shown: str = ROWS
    act: Act | None = None
    change: Callable[[int], object] | None = None
    before: Act | None = None
    prepared: str = "true"
    undo: Act | None = None
    after: str = "true"


def perform(page: Page, action: Action, times: int) -> Iterator[Timing]:
    """Make an action so many times, in a tab on the server."""
    base = urlsplit(page.url)
    url = f"{base.scheme}://{base.netloc}{action.path}"
    if action.act is not None or action.change is not None:
        page.goto(url)
        await_shown(page, action.ready)
    for turn in range(times):
        if action.before is not None:
            action.before(page)
            await_shown(page, action.prepared)
        if action.change is not None:
            change = partial(action.change, turn)
            took_ms = time_change(page, change, action.shown.replace("{turn}", str(turn)))
            yield Timing(answer=None, frame=None, shown=took_ms)
        elif action.act is not None:
            yield time_action(page, partial(action.act, page), action.shown)
        else:
            yield time_load(page, url, action.shown)
        if action.undo is not None:
            action.undo(page)
            await_shown(page, action.after)


def actions(client: Client, filled: Filled) -> list[Action]:
    """All of them. The server has the content of `filled`."""
    return [
        *_runs(client),
        *_run(filled),
        *_queue(client),
        *_nodes(client),
        *_experiments(client, filled),
        *_others(filled),
    ]


def _runs(client: Client) -> Iterator[Action]:
    def of(name: str, **fields: object) -> Action:
        return Action(page="runs", name=name, path="/", **fields)  # type: ignore[arg-type]

    sorted_ = "is.settled && is.rows !== was.rows"
    yield of("load")
    yield of(
        "open a menu of states",
        act=facet("Status"),
        shown="document.querySelector('.menu-list:popover-open .choice')",
        undo=key("Escape", on=""),
    )
    yield of(
        "filter by state",
        before=facet("Status"),
        act=chosen("failed"),
        shown="is.settled && is.count !== was.count && is.first",
        undo=several(key("Escape", on=""), back_to("/")),
        after=ROWS,
    )
    yield of(
        "search",
        before=lambda page: page.get_by_role("searchbox").fill("vit-"),
        prepared="is.settled && is.first.startsWith('vit-') && location.search.endsWith('vit-')",
        act=key("1", on="[type=search]"),
        shown="is.settled && is.count !== was.count && is.first",
    )
    yield of("sort by name", act=head("Name"), shown=sorted_)
    yield of("sort by user", act=head("User"), shown=sorted_)
    yield of("sort by age", act=head("Age"), shown=sorted_)
    yield of("scroll to the middle", act=wheel(0.5), shown=sorted_, undo=key("Home"), after=ROWS)
    yield of("scroll to the end", act=key("End"), shown=sorted_, undo=key("Home"), after=ROWS)
    yield of("next row", act=key("ArrowDown"), shown="true")
    yield from _chosen_runs(of)
    yield of(
        "change columns",
        before=button("Columns"),
        act=chosen("Attempt"),
        shown="is.head !== was.head",
        undo=key("Escape", on=""),
    )
    yield of(
        "a change",
        change=lambda turn: client.submit(WAITS.format(name=f"change-{turn}")),
        shown="is.count !== was.count && is.settled",
    )


def _chosen_runs(of: Callable[..., Action]) -> Iterator[Action]:
    yield of(
        "open a run",
        act=key("Enter"),
        shown="document.querySelector('.facts dl, .facts p') && is.settled",
        undo=back,
        after=ROWS,
    )
    yield of(
        "back",
        before=several(key("Enter"), lambda page: page.locator(".facts").wait_for()),
        act=back,
    )
    all_ = "document.querySelector('[role=toolbar] strong')"
    yield of("select all", act=key("Control+a"), shown=all_, undo=key("Escape"), after=f"!{all_}")
    yield of(
        "open the stop dialog",
        before=several(key("Control+a"), lambda page: page.locator("[role=toolbar] strong").wait_for()),
        act=button("Stop…"),
        shown=DIALOG,
        undo=several(key("Escape", on=""), key("Escape")),
        after=f"!{all_}",
    )


def _run(filled: Filled) -> Iterator[Action]:
    run = filled.ended[0]
    text = "!document.querySelector('.loading') && "
    tabs = {
        "Metrics": "document.querySelector('.page .quiet, canvas')",
        "Files": "document.querySelector('.plain')",
        "Spec": "document.querySelector('pre.source')",
    }
    over = "document.querySelector('.facts') && !document.querySelector('.loading')"
    yield Action(page="run", name="load", path=f"/run/{run}", shown=over)
    for name, shown in tabs.items():
        yield Action(
            page="run",
            name=f"open {name.lower()}",
            path=f"/run/{run}",
            ready=over,
            act=link(name),
            shown=f"{text}{shown} && location.pathname.endsWith('{name.lower()}')",
            undo=link("Overview"),
            after=over,
        )
    yield Action(
        page="run",
        name="open history",
        path=f"/run/{run}",
        ready=over,
        act=_history,
        shown="document.querySelector('.states[open] tbody tr')",
        undo=_history,
        after="!document.querySelector('.states[open]')",
    )


def _history(page: Page) -> None:
    page.locator(".states summary").click()


def _queue(client: Client) -> Iterator[Action]:
    def of(name: str, **fields: object) -> Action:
        return Action(page="queue", name=name, path=f"/queue?pool=local/{BUSY}", **fields)  # type: ignore[arg-type]

    other = "is.settled && is.rows !== was.rows"

    def last_to_top(_: int) -> None:
        [pool] = client.queue(pool=BUSY, limit=1)
        [pool] = client.queue(pool=BUSY, limit=1, after=pool.total - 1)
        client.change_queue([{"run": pool.runs[0].id, "top": True}], limit=1)

    dots = click(lambda page: page.get_by_role("button", name=re.compile("^Actions of ")).nth(5))
    yield of("load")
    yield of("scroll to the middle", act=wheel(0.5), shown=other, undo=key("Home"), after=ROWS)
    yield of("scroll to the end", act=key("End"), shown=other, undo=key("Home"), after=ROWS)
    yield of("move to the top", before=dots, act=button("Move to top"), shown=other)
    yield of(
        "move by one",
        before=lambda page: page.locator(".table-row").nth(8).click(),
        act=key("Alt+ArrowUp"),
        shown=other,
    )
    yield of("manage a job", before=dots, act=button("Manage job…"), shown=DIALOG, undo=key("Escape", on=""))
    yield of(
        "another pool",
        act=click(lambda page: page.get_by_role("navigation", name="Pools").get_by_role("link").nth(1)),
        shown="location.search.includes('big') && is.count !== was.count",
        undo=click(lambda page: page.get_by_role("navigation", name="Pools").get_by_role("link").nth(0)),
        after=ROWS,
    )
    yield of("a change", change=last_to_top, shown=other)


def _nodes(client: Client) -> Iterator[Action]:
    ready = "document.querySelectorAll('.node').length > 1000"

    def drain(turn: int) -> None:
        if turn % 2:
            client.undrain("node9")
        else:
            client.drain("node9")

    yield Action(page="nodes", name="load", path="/nodes", shown=ready)
    node = click(lambda page: page.locator(".node").nth(4))
    yield Action(
        page="nodes",
        name="choose a node",
        path="/nodes",
        ready=ready,
        act=node,
        shown="document.querySelector('.node-details')",
        undo=node,
        after="!document.querySelector('.node-details')",
    )
    yield Action(
        page="nodes",
        name="a change",
        path="/nodes",
        ready=ready,
        change=drain,
        shown="is.drained !== was.drained",
    )


def _experiments(client: Client, filled: Filled) -> Iterator[Action]:
    ready = "document.querySelector('tbody tr')"
    rows = "is.lines !== was.lines"
    yield Action(page="experiments", name="load", path="/experiments", shown=ready)
    yield Action(
        page="experiments",
        name="filter by state",
        path="/experiments",
        ready=ready,
        act=button("paused"),
        shown=f"!document.querySelector('.loading') && {rows}",
        undo=button("paused"),
        after=ready,
    )
    yield Action(
        page="experiments",
        name="a change",
        path="/experiments",
        ready=ready,
        change=lambda turn: client.create_experiment(SEARCH.format(turn=turn)),
        shown="is.first !== was.first",
    )
    path = f"/experiment/{filled.experiment}"
    yield Action(page="experiment", name="load", path=path)
    yield Action(
        page="experiment",
        name="sort its trials",
        path=path,
        act=head("lr"),
        shown="is.settled && is.rows !== was.rows",
    )


def _others(filled: Filled) -> Iterator[Action]:
    lines = "document.querySelector('tbody tr')"
    yield Action(page="projects", name="load", path="/projects", shown=lines)
    yield Action(page="usage", name="load", path="/usage", shown=lines)
    yield Action(
        page="usage",
        name="by day",
        path="/usage",
        ready=lines,
        act=link("By day"),
        shown="/[0-9]-[0-9]/.test(document.querySelector('tbody')?.textContent ?? '')",
        undo=link("By user"),
        after="!/[0-9]-[0-9]/.test(document.querySelector('tbody')?.textContent ?? '')",
    )
    yield Action(page="artifacts", name="load", path="/artifacts", shown=lines)
    yield Action(
        page="artifacts",
        name="search",
        path="/artifacts",
        ready=lines,
        before=lambda page: page.get_by_role("searchbox").fill("vi"),
        act=key("t", on="[type=search]"),
        shown="[...document.querySelectorAll('tbody tr')].every((row) => row.textContent.includes('vit'))",
    )
    yield Action(page="artifact", name="load", path=f"/artifacts/{filled.ended[0]}.checkpoint.1", shown=lines)
    yield Action(page="datasets", name="load", path="/datasets", shown=lines)
    for name in ("", "/users", "/limits", "/audit"):
        yield Action(page=f"admin{name}", name="load", path=f"/admin{name}", shown=lines)
    many = "&".join(f"run={run}" for run in filled.ended[:10])
    yield Action(
        page="compare",
        name="load",
        path=f"/compare?{many}",
        shown="document.querySelector('tbody tr, .quiet')",
    )
    yield Action(
        page="new",
        name="load",
        path=f"/new?clone={filled.ended[0]}",
        shown="document.querySelector('.cm-line, textarea, form')",
    )

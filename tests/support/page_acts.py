"""What a person does on a page: press a key, click, turn the wheel. `page_actions` puts them together."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page

Act = Callable[[Page], object]


def key(name: str, *, on: str = ".table") -> Act:
    """Press a key on an element."""

    def press(page: Page) -> None:
        if on:
            page.locator(on).first.focus()
        page.keyboard.press(name)

    return press


def click(find: Callable[[Page], Locator]) -> Act:
    return lambda page: find(page).click()


def button(name: str | re.Pattern[str]) -> Act:
    return click(lambda page: page.get_by_role("button", name=name, exact=True).first)


def facet(title: str) -> Act:
    """Open or close the menu of a filter."""
    name = re.compile(f"^{title}")
    return click(lambda page: page.locator(".filters").get_by_role("button", name=name))


def head(title: str) -> Act:
    """Sort by a column."""
    return click(lambda page: page.locator(".table-head button").filter(has_text=title).first)


def link(name: str) -> Act:
    return click(lambda page: page.get_by_role("link", name=name, exact=True).first)


def chosen(name: str) -> Act:
    return click(lambda page: page.locator(".menu-list:popover-open label").filter(has_text=name).first)


def lose_session(page: Page, path: str = "") -> None:
    """Open the page again, or a path below it, in a browser that has no session any more."""
    address = page.url
    page.goto("about:blank")  # else a request of the page, sent without the cookie, would be refused
    page.context.clear_cookies()
    page.goto(f"{address}{path}")


def back(page: Page) -> None:
    page.evaluate("() => history.back()")


def wheel(share: float) -> Act:
    """Turn the wheel over the table by a share of its length."""

    def turn(page: Page) -> None:
        height = page.locator(".table").evaluate("element => element.scrollHeight")
        page.locator(".table").hover()
        page.mouse.wheel(0, height * share)

    return turn


def several(*acts: Act) -> Act:
    def do(page: Page) -> None:
        for act in acts:
            act(page)

    return do


def back_to(path: str) -> Act:
    """Go to a place of the application, without loading it again."""
    return lambda page: page.evaluate(
        f"() => {{ const link = document.createElement('a'); link.href = '{path}';"
        " document.body.append(link); link.click(); link.remove(); }"
    )

"""Sessions of browsers: a cookie that scripts cannot read, ended on the server."""

from __future__ import annotations

import http.client
import json

import pytest

from served import Served
from tarmac.model.actor import ActorRole
from tarmac.model.people.account import AccountSettings

PASSWORD = "correct horse battery"


class Browser:
    """A browser without a page: it keeps the cookie that it is given."""

    def __init__(self, plane: Served) -> None:
        self._plane = plane
        self.cookie = ""
        self.attributes: set[str] = set()

    def ask(self, method: str, path: str, body: object = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._plane.tcp_port, timeout=60)
        headers = {"Content-Type": "application/json"} | ({"Cookie": self.cookie} if self.cookie else {})
        connection.request(method, f"/api/v1{path}", json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        answer.read()
        if given := answer.getheader("Set-Cookie"):
            self.cookie, *rest = given.split("; ")
            self.attributes = {each.partition("=")[0].lower() for each in rest}
        connection.close()
        return answer.status

    def log_in(self, password: str = PASSWORD) -> int:
        return self.ask("POST", "/session", {"user": "bob", "password": password})


@pytest.fixture
def browser(plane: Served) -> Browser:
    plane.client().set_user("ada")
    plane.client().set_user("bob", password=PASSWORD)
    return Browser(plane)


def test_a_session_is_a_cookie_that_ends_on_the_server(plane: Served, browser: Browser) -> None:
    """N15."""
    assert browser.ask("GET", "/account") == 401
    assert browser.log_in("a wrong password") == 401
    assert (browser.log_in(), browser.ask("GET", "/account")) == (200, 200)
    assert browser.cookie.startswith("__Host-tarmac=tarmac_")
    assert browser.attributes == {"httponly", "secure", "samesite", "max-age", "path"}
    first = browser.cookie
    assert browser.log_in() == 200
    assert browser.cookie != first, "every login has an id of its own"
    last = browser.cookie
    assert browser.ask("DELETE", "/session") == 200
    browser.cookie = last
    assert browser.ask("GET", "/account") == 401
    plane.clock.advance(13 * 3600)
    browser.cookie = first
    assert browser.ask("GET", "/account") == 401


@pytest.mark.parametrize("change", [AccountSettings(disabled=True), AccountSettings(role=ActorRole.VIEWER)])
def test_a_session_ends_with_a_ban_and_a_change_of_role(
    plane: Served, browser: Browser, change: AccountSettings
) -> None:
    browser.log_in()
    plane.client().set_user("bob", change)
    assert browser.ask("GET", "/account") == 401


def test_a_session_is_no_token_and_a_token_no_session(plane: Served, browser: Browser) -> None:
    browser.log_in()
    text = browser.cookie.partition("=")[2]
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
    connection.request("GET", "/api/v1/account", headers={"Authorization": f"Bearer {text}"})
    assert connection.getresponse().status == 401
    connection.close()
    browser.cookie = f"__Host-tarmac={plane.client().add_token('x', user='bob').text}"
    assert browser.ask("GET", "/account") == 401

"""What an attacker tries: names that lead elsewhere, planted sessions, and the time of an answer."""

from __future__ import annotations

import http.client
import statistics
import time
from typing import Any
from urllib.parse import quote

import pytest

from served import HELLO, Served
from tarmac import api
from tarmac.api.operation import Operation
from tarmac.model.errors import Unauthorized
from tarmac.server.app import routes_of
from tarmac.server.http.auth import SESSION_COOKIE

PASSWORD = "correct horse battery"
MARK = "what no answer may have"
NAMES = [
    *("..", "../mark", "../../mark", "..\\mark", "/etc/passwd", "a\0b", "\udcff", "x" * 5000, "*", "@last["),
    *("", "%", "%2e%2e/mark", "x'; DROP TABLE run; --"),
]


def named_operations(plane: Served) -> list[Operation[Any, Any, Any]]:
    found = [offer.operation for offer in routes_of(plane.service()).offers]
    return [each for each in found if "{" in each.path]


def ways_to_write(name: str) -> list[str]:
    """A name in a path: with each special character encoded, and with as few as HTTP allows."""
    given = name.encode("utf-8", "surrogateescape")
    encoded = quote(given, safe="").replace(".", "%2e")
    return list(dict.fromkeys([encoded, quote(given, safe="/.~*'()$;:@[]{}\\`%!")]))


def test_no_name_in_a_path_leads_out_of_its_place(plane: Served) -> None:
    """N15: each operation with a name, and each trick with it: no 5xx, no file, and nothing is changed."""
    (plane.home.root / "mark").write_text(MARK)
    (plane.home.root.parent / "mark").write_text(MARK)
    owner = plane.client()
    owner.set_user("ada")
    run = owner.submit(HELLO)
    text = owner.add_token("test", user="ada").text
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=120)
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    for operation in named_operations(plane):
        before, _, after = operation.path.partition("{")
        for name in NAMES:
            for way in ways_to_write(name):
                path = f"{operation.base}{before}{way}{after.partition('}')[2]}"
                connection.putrequest(operation.method, path, skip_host=False)
                for header, value in headers.items():
                    connection.putheader(header, value)
                connection.putheader("Content-Length", "2")
                connection.endheaders(b"{}")
                answer = connection.getresponse()
                content = answer.read().decode(errors="replace")
                assert answer.status < 500, (operation.method, path, content)
                assert MARK not in content, (operation.method, path)
                assert "root:x:" not in content, (operation.method, path)
    connection.close()
    assert owner.run(run.id).id == run.id
    assert [each.name for each in owner.users()] == ["ada"]


def test_a_session_that_was_planted_in_a_browser_is_never_that_of_its_user(plane: Served) -> None:
    """N15: session fixation, with a made-up session and with one that the attacker has."""
    owner = plane.client()
    for name in ("ada", "bob", "eve"):
        owner.set_user(name, password=PASSWORD)

    def ask(method: str, path: str, cookie: str, body: str = "") -> tuple[int, str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
        connection.request(method, f"/api/v1{path}", body, {"Cookie": f"{SESSION_COOKIE}={cookie}"})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.getheader("Set-Cookie") or ""
        connection.close()
        return found

    def log_in(user: str, cookie: str) -> str:
        body = f'{{"user": "{user}", "password": "{PASSWORD}"}}'
        status, _, given = ask("POST", "/session", cookie, body)
        assert status == 200
        return given.partition("=")[2].partition(";")[0]

    of_eve = log_in("eve", "")
    for planted in ("tarmac_chosen-by-the-attacker", of_eve):
        of_bob = log_in("bob", planted)
        assert of_bob != planted
        assert '"name":"bob"' in ask("GET", "/account", of_bob)[1]
        assert '"name":"bob"' not in ask("GET", "/account", planted)[1]
    assert ask("GET", "/account", "tarmac_chosen-by-the-attacker")[0] == 401


def test_a_login_takes_as_long_for_an_unknown_user_as_for_a_wrong_password(plane: Served) -> None:
    """N15: no list of users by the time of an answer, measured in time of the processor."""
    owner = plane.client()
    owner.set_user("ada", password=PASSWORD)
    owner.set_user("bob")

    def cost_s(user: str) -> float:
        began = time.process_time()
        with pytest.raises(Unauthorized):
            plane.accounts.login(api.LoginBody(user=user, password="a wrong password"))
        return time.process_time() - began

    users = ("ada", "bob", "nobody")
    costs = {user: [cost_s(user) for _ in range(5)] for user in users}
    medians = [statistics.median(costs[user]) for user in users]
    assert max(medians) < 2 * min(medians), costs

"""The gateway's door: who may log in, what a token is good for, and what nobody offers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined_calls import DeterminedCalls
from served import HELLO, OWNER, TOKEN, Served, served
from tarmac.model.people.account import salted
from tarmac.systems.determined.gateway.application import ROUTES
from tarmac.systems.determined.gateway.calls import Access
from tarmac.systems.determined.gateway.routes.login import uid_of_peer
from tarmac.systems.determined.gateway.tokens import SESSION_S, Claim, TokenKind, TokenMaker


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home") as made:
        yield made


def test_the_default_user_needs_no_password_from_a_process_of_the_servers_user(here: Served) -> None:
    calls = DeterminedCalls(here.gateway_port)
    status, found = calls.post("/api/v1/auth/login", {"username": "determined", "password": ""})
    assert (status, found["user"]["username"], found["user"]["admin"]) == (200, "determined", True)
    calls.token = found["token"]
    assert calls.get("/api/v1/me") == (200, {"user": found["user"]})


@pytest.mark.parametrize("hashed", [True, False])
def test_the_token_of_the_home_is_everybodys_password(here: Served, hashed: bool) -> None:
    body = {"username": "bo", "password": salted(TOKEN) if hashed else TOKEN, "isHashed": hashed}
    status, found = DeterminedCalls(here.gateway_port).post("/api/v1/auth/login", body)
    assert (status, found["user"]["username"]) == (200, "bo")


@pytest.mark.parametrize(
    "body",
    [
        {"username": "bo", "password": ""},
        {"username": "determined", "password": "guess", "isHashed": True},
        {"username": "../x", "password": salted(TOKEN), "isHashed": True},
        {"username": "determined", "password": salted(TOKEN)},
        {},
    ],
)
def test_others_are_refused_with_a_sentence(here: Served, body: Any) -> None:
    status, found = DeterminedCalls(here.gateway_port).post("/api/v1/auth/login", body)
    assert status == 403
    assert "the user name or the password is wrong" in found["message"] == found["error"]["error"]


def test_every_route_but_the_open_ones_wants_a_token(here: Served) -> None:
    calls = DeterminedCalls(here.gateway_port, token="eyJ9.00")
    path = {route: route.path.replace("{", "").replace("}", "") for route in ROUTES}
    answers = {route: calls.ask(route.method, path[route]) for route in ROUTES}
    closed = [route for route in ROUTES if route.access is not Access.OPEN]
    assert closed
    assert {answers[route][0] for route in closed} == {401}
    assert {route.path for route in ROUTES if route.access is Access.OPEN} == {
        "/info",
        "/api/v1/master",
        "/api/v1/auth/login",
    }


def test_a_token_of_a_run_opens_what_runs_ask_for_alone(here: Served) -> None:
    run_id = here.client().submit(HELLO).id
    here.turn()
    here.turn()
    claim = Claim(kind=TokenKind.ALLOCATION, subject=f"{run_id}.1", owner="bo")
    token = TokenMaker(TOKEN).make(claim, until=here.clock.now() + 60)
    calls = DeterminedCalls(here.gateway_port)
    header = {"Grpc-Metadata-x-allocation-token": f"Bearer {token}"}
    assert calls.ask("GET", "/api/v1/me", headers=header)[1]["user"]["username"] == "bo"
    assert calls.ask("GET", "/api/v1/users", headers=header)[0] == 401


def test_a_token_ends_and_belongs_to_one_home(here: Served) -> None:
    maker, now = TokenMaker(TOKEN), here.clock.now()
    claim = Claim(kind=TokenKind.USER, subject="bo")
    token = maker.make(claim, until=now + SESSION_S)
    assert maker.read(token, now=now) == claim
    assert maker.read(token, now=now + SESSION_S) is None
    assert TokenMaker("another token of a home").read(token, now=now) is None
    body, seal = token.split(".")
    for other in (f"{body}x.{seal}", f"{body}.{seal[:-1]}", "", ".", body):
        assert maker.read(other, now=now) is None


def test_a_logout_ends_its_session_alone_and_for_good(here: Served, tmp_path: Path) -> None:
    login = {"username": "bo", "password": salted(TOKEN), "isHashed": True}
    first, second = (DeterminedCalls(here.gateway_port) for _ in range(2))
    for calls in (first, second):
        calls.token = calls.post("/api/v1/auth/login", login)[1]["token"]
    assert first.post("/api/v1/auth/logout") == (200, {})
    assert first.get("/api/v1/me")[0] == 401
    assert second.get("/api/v1/me")[0] == 200
    owner = DeterminedCalls(here.gateway_port, token=TOKEN)
    assert owner.post("/api/v1/auth/logout") == (200, {})
    assert owner.get("/api/v1/me")[0] == 200, "the token of the home is no session"

    file, now = tmp_path / "logouts.json", here.clock.now()
    maker, claim = TokenMaker(TOKEN, file), Claim(kind=TokenKind.USER, subject="bo")
    old, new = (maker.make(claim, until=now + days * SESSION_S) for days in (1, 2))
    maker.end(old, now=now)
    restarted = TokenMaker(TOKEN, file)
    assert (restarted.read(old, now=now), restarted.read(new, now=now)) == (None, claim)
    restarted.end(TOKEN, now=now)
    assert TOKEN not in file.read_text()
    restarted.end(new, now=now + SESSION_S)
    assert len(json.loads(file.read_text())) == 1, "a token that is over by itself needs no entry"


def test_the_owners_own_token_is_taken_as_it_is(here: Served) -> None:
    found = DeterminedCalls(here.gateway_port, token=TOKEN).get("/api/v1/me")
    assert found[1]["user"]["username"] == OWNER


def test_what_is_not_offered_and_what_is_no_json_is_said_in_a_sentence(here: Served) -> None:
    calls = DeterminedCalls(here.gateway_port, token=TOKEN)
    status, found = calls.get("/api/v1/notebooks")
    assert (status, found["message"]) == (
        501,
        "tarmac's gateway for Determined does not offer GET /api/v1/notebooks",
    )
    status, found = calls.ask("POST", "/api/v1/auth/login", raw=b"{")
    assert status == 400
    assert "is not JSON" in found["message"]
    status, found = calls.ask("POST", "/api/v1/auth/login", raw=b" " * (1 << 17))
    assert status == 413


def test_the_masters_facts_are_open(here: Served) -> None:
    calls = DeterminedCalls(here.gateway_port)
    info, master = calls.get("/info")[1], calls.get("/api/v1/master")[1]
    assert (info["cluster_id"], info["version"]) == (master["clusterId"], master["version"])


def test_the_users_process_is_told_from_the_kernels_list(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as client:
            assert uid_of_peer(client.getsockname(), address) == os.getuid()
            assert uid_of_peer(("127.0.0.1", 1), address) is None
            assert uid_of_peer(("192.0.2.1", client.getsockname()[1]), address) is None
            assert uid_of_peer(None, address) is None

"""Who may come in: the owner through the socket of the home, others with the token, whatever the route."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.routing import Route

import tarmac
from served import HELLO, OWNER, TOKEN, Served
from tarmac.model.errors import Unauthorized
from tarmac.server.accounts.authenticator import API_USER
from tarmac.server.app import routed
from tarmac.server.http.auth import LOGIN_PATHS, OPEN_PATHS

PAGES = frozenset({"/enter/{code}", "/assets/{name}", "/{path:path}"})
"""The routes of documents and their files, which show nothing of any user."""

STOP = ("POST", "/api/v1/server/stop")


def test_no_route_is_reached_without_the_token(plane: Served) -> None:
    """Deny by default: every route of the table, and what no route takes."""
    every = [(method, path) for path, methods in _table(plane).items() for method in methods]
    table = [(method, path) for method, path in every if path not in OPEN_PATHS | LOGIN_PATHS | PAGES]
    assert len(every) - len(table) == len(OPEN_PATHS | PAGES) + 6, "a route is open that is not known to be"
    wrong = (
        None,
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"bearer{TOKEN}",
        f"Basic {TOKEN}",
        "Bearer ",
        "Bearer é",
    )
    for method, path in [*table, ("POST", "/"), ("GET", "/api/v1/nothing"), ("OPTIONS", "/api/v1/runs")]:
        for header in wrong:
            status, answer = _ask(plane, method, re.sub(r"\{\w+\}", "x", path), header)
            assert status == 401, (method, path, header)
            assert answer["error"]["code"] == "unauthorized"
    assert not plane.stops.is_set()
    assert plane.client().runs().runs == []


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_what_is_open_to_this_machine_is_so_directly_and_for_reading_alone(plane: Served, path: str) -> None:
    def status(method: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=120)
        plane.closing.callback(connection.close)
        connection.request(
            method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )
        return connection.getresponse().status

    assert status("GET") == 200
    for header in ("Forwarded", "X_Forwarded_For", "X_REAL_IP", "Via"):
        assert status("GET", **{header: "127.0.0.1"}) == 401
        assert status("GET", **{header: "127.0.0.1", "Authorization": f"Bearer {TOKEN}"}) == 200
    assert status("POST") == 401


def test_the_token_opens_every_route(plane: Served) -> None:
    table = [(method, path) for path, methods in _table(plane).items() for method in methods]
    table.sort(key=lambda route: route == STOP)  # whatever came after that might find no server
    assert table[-1] == STOP
    for method, path in table:
        if path == "/enter/{code}":  # a link is what counts there
            continue
        status, _ = _ask(plane, method, re.sub(r"\{\w+\}", "x", path), f"Bearer {TOKEN}")
        assert status not in (401, 500), (method, path)


def test_callers_are_told_apart(plane: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/my/bin")
    remote = plane.remote_client(TOKEN)
    assert plane.client().submit(HELLO).user == OWNER
    run = remote.submit(HELLO)
    assert run.user == API_USER
    assert "inherited" not in run.spec.get("environment", {}), "only the user's own shell is taken over"


@pytest.fixture
def nobody(plane: Served) -> Callable[..., str]:
    """Sends a request as the user nobody over the socket of the home; the whole answer, as text."""
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    for directory in (plane.home.root, *plane.home.root.parents):
        directory.chmod(directory.stat().st_mode | 0o011)
    plane.home.socket.chmod(0o666)
    user = pwd.getpwnam("nobody")

    def answer(request: str, body: object = None) -> str:
        content = "" if body is None else json.dumps(body)
        head = f"{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        read_end, write_end = os.pipe()
        if os.fork() == 0:  # not another program: which Python this user may start is not known
            try:
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(plane.home.socket))
                    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
                    while piece := connection.recv(65536):
                        os.write(write_end, piece)
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            found = pipe.read()
        os.wait()
        return found

    return answer


def test_the_user_of_a_process_is_told_by_the_kernel(plane: Served, nobody: Callable[..., str]) -> None:
    """Whoever else may open the socket is a member under their own name: they see all, and change nothing."""
    run = plane.client().submit(HELLO)
    assert run.id in nobody("GET /api/v1/runs")
    assert run.id not in nobody("GET /api/v1/runs?scope=mine")
    refused = nobody(f"POST /api/v1/runs/{run.id}/stop")
    assert "403 Forbidden" in refused
    assert f"nobody may not change runs of {OWNER}" in refused
    assert plane.client().run(run.id).state == run.state


def test_a_member_changes_their_own_secrets_alone(plane: Served, nobody: Callable[..., str]) -> None:
    """N15: by the user of the process; test_secret_owners.py has the other rules."""
    client = plane.client()
    client.set_secret("key", "hers-0123456789", form="variable", variable="KEY")
    value = {"value": "his-0123456789", "form": "variable", "variable": "OTHER"}
    missing = nobody("DELETE /api/v1/secrets/key?force=true&purge=true")
    assert "404 Not Found" in missing
    assert "there is no secret 'key'" in missing
    assert "403 Forbidden" in nobody("PUT /api/v1/secrets/key?scope=", value)
    assert "403 Forbidden" in nobody("POST /api/v1/secrets/rotate")
    assert "200 OK" in nobody("PUT /api/v1/secrets/key", value)
    assert [(each.name, each.scope) for each in client.secrets()] == [
        ("key", f"user:{OWNER}"),
        ("key", "user:nobody"),
    ]
    assert "200 OK" in nobody("DELETE /api/v1/secrets/key")
    assert [(secret.name, secret.user) for secret in client.secrets()] == [("key", OWNER)]


def test_a_member_removes_their_own_datasets_alone(
    plane: Served, nobody: Callable[..., str], tmp_path: Path
) -> None:
    plane.client().add_dataset("hers", str(tmp_path))
    refused = nobody("DELETE /api/v1/datasets/hers")
    assert "403 Forbidden" in refused
    assert f"nobody may not change datasets of {OWNER}" in refused
    assert "200 OK" in nobody("POST /api/v1/datasets", {"id": "his", "source": str(tmp_path)})
    assert "200 OK" in nobody("DELETE /api/v1/datasets/his")
    assert [dataset.id for dataset in plane.client().datasets()] == ["hers"]


def test_a_member_ends_no_server_and_manages_no_clusters(plane: Served, nobody: Callable[..., str]) -> None:
    for request in ("POST /api/v1/server/stop", "DELETE /api/v1/clusters/site"):
        refused = nobody(request)
        assert "403 Forbidden" in refused
        assert "nobody may not manage this server" in refused
    assert "403 Forbidden" in nobody("PUT /api/v1/announcement", {"text": "free slots for all"})
    assert plane.client().version().announcement is None
    assert not plane.stops.is_set()


def test_a_wrong_token_is_an_error_of_the_client(plane: Served) -> None:
    with pytest.raises(Unauthorized) as refused:
        plane.remote_client("wrong").runs()
    assert refused.value.exit_code == 1


def test_a_proxy_header_changes_nothing(plane: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port)
    connection.request("GET", "/api/v1/runs", headers={"X-Forwarded-For": "127.0.0.1", "Host": "localhost"})
    assert connection.getresponse().status == 401
    connection.close()


def test_every_answer_names_the_version(plane: Served) -> None:
    for path, header in (
        ("/api/v1/version", f"Bearer {TOKEN}"),
        ("/nowhere", f"Bearer {TOKEN}"),
        ("/", None),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port)
        connection.request("GET", path, headers={"Authorization": header} if header else {})
        assert connection.getresponse().headers["Tarmac-Version"] == tarmac.__version__
        connection.close()


def test_the_homes_token_is_not_sent_elsewhere(plane: Served, tmp_path: Path) -> None:
    plane.home.token.write_text(f"{TOKEN}\n")
    with tarmac.Client(f"http://127.0.0.1:{plane.tcp_port}", home=plane.home.root) as here:
        assert here.version().home == str(plane.home.root)
    for name in ("example.org", "127.0.0.1.example.org", "10.0.0.1", "[2001:db8::1]"):
        with tarmac.Client(f"http://{name}:8400", home=plane.home.root) as elsewhere:
            assert not elsewhere._transport._address.headers, name


def _table(plane: Served) -> dict[str, set[str]]:
    """The methods of every path of the application."""
    table: dict[str, set[str]] = {}
    for route in routed(plane.service(), home=plane.home).routes:
        assert isinstance(route, Route)
        table.setdefault(route.path, set()).update((route.methods or set()) - {"HEAD"})
    return table


def _ask(plane: Served, method: str, path: str, header: str | None) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=120)
    body = json.dumps({}) if method == "POST" else None
    headers = {"Content-Type": "application/json"}
    if header is not None:
        headers["Authorization"] = header.encode().decode("latin-1")
    connection.request(method, path, body=body, headers=headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    try:
        return response.status, json.loads(content)
    except ValueError:
        return response.status, {}

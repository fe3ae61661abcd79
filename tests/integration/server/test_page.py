"""The page: how a browser gets in, and what its document and files allow."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from served import HELLO, OWNER, Served
from tarmac.server.page.files import PageFiles

HTML = {"Accept": "text/html,*/*;q=0.8"}


def get(plane: Served, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=60)
    plane.closing.callback(connection.close)
    connection.request("GET", path, headers=HTML | headers)
    answer = connection.getresponse()
    return answer, answer.read()


@pytest.fixture
def built(tmp_path: Path) -> PageFiles:
    """The files of a build, as `web/build.mjs` names them."""
    loaded = {"script": "page-A.js", "modules": ["part-B.js"], "style": "page-C.css"}
    entry = {"page": loaded, "terminal": loaded | {"script": "terminal-E.js"}, "icon": "icon-D.svg"}
    (tmp_path / "entry.json").write_text(json.dumps(entry))
    (tmp_path / "page-A.js").write_text("script")
    (tmp_path / "page-A.js.gz").write_text("packed")
    return PageFiles(tmp_path)


def test_a_link_admits_one_browser_as_the_owner_once(plane: Served) -> None:
    """D16."""
    found = plane.client().page_address()
    path = urlsplit(found.url).path
    answer, _ = get(plane, path)
    assert (answer.status, answer.getheader("location")) == (303, "/")
    cookie = answer.getheader("set-cookie") or ""
    assert cookie.startswith("__Host-tarmac=")
    for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert attribute in cookie
    pair = cookie.partition(";")[0]
    answer, content = get(plane, "/api/v1/page", Cookie=pair)
    facts = json.loads(content)
    assert (facts["user"], "manage" in facts["actions"]) == (OWNER, True)
    assert get(plane, "/api/v1/runs", Cookie=pair)[0].status == 200
    again, _ = get(plane, path)
    assert again.status in (401, 503), "no document without a build, and no entry with the same link"
    assert again.getheader("set-cookie") is None


def test_a_link_grows_old(plane: Served) -> None:
    found = plane.client().page_address()
    plane.clock.advance(61)
    assert get(plane, urlsplit(found.url).path)[0].getheader("set-cookie") is None


def test_a_session_of_the_page_counts_only_as_a_cookie(plane: Served) -> None:
    answer, _ = get(plane, urlsplit(plane.client().page_address().url).path)
    session = (answer.getheader("set-cookie") or "").partition("=")[2].partition(";")[0]
    assert get(plane, "/api/v1/runs", Authorization=f"Bearer {session}")[0].status == 401
    assert get(plane, "/api/v1/runs", Cookie="__Host-tarmac=")[0].status == 401
    assert get(plane, "/api/v1/runs", Cookie=f"__Host-tarmac={session}x")[0].status == 401


def test_a_user_from_elsewhere_gets_the_address_alone(plane: Served) -> None:
    client = plane.remote_client("a-token-for-tests")
    found = client.page_address()
    assert (found.url, found.expires_at) == (f"http://127.0.0.1:{plane.tcp_port}/", None)


def test_nobody_is_told_anything_without_a_login(plane: Served) -> None:
    plane.client().submit(HELLO)
    facts = json.loads(get(plane, "/api/v1/page")[1])
    assert (facts["user"], facts["actions"], facts["announcement"]) == (None, [], None)
    assert get(plane, "/api/v1/tables/runs")[0].status == 401
    assert b"hello" not in get(plane, "/")[1]


def test_the_document_runs_nothing_but_its_own_files(built: PageFiles) -> None:
    hostile = {"page": {"user": "</script><script>alert(1)</script>\u2028<!--"}}
    answer = built.document(hostile)
    text = bytes(answer.body).decode()
    policy = answer.headers["content-security-policy"]
    nonce = re.search(r"style-src 'nonce-([^']+)'", policy)
    assert nonce
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert text.count("<script") == 2, "the module, and the data"
    data = re.search(r'id="first"[^>]*>([^<]*)</script>', text)
    assert data
    assert json.loads(data[1]) == hostile
    assert f'nonce="{nonce[1]}"' in text
    assert built.document({}).headers["content-security-policy"] != policy, "a nonce counts once"


def test_only_the_document_of_a_terminal_has_a_looser_rule_of_style(built: PageFiles) -> None:
    def rules(*, terminal: bool) -> set[str]:
        policy = built.document({}, terminal=terminal).headers["content-security-policy"]
        return set(re.sub(r"nonce-[^']+", "nonce", policy).split("; "))

    page, loose = rules(terminal=False), rules(terminal=True)
    assert page - loose == {"style-src 'nonce'"}
    assert loose - page == {"style-src 'self' 'unsafe-inline'"}
    assert b"terminal-E.js" in bytes(built.document({}, terminal=True).body)


def test_only_built_files_are_files(built: PageFiles, tmp_path: Path) -> None:
    plain, packed = built.file("page-A.js", compressed=False), built.file("page-A.js", compressed=True)
    assert plain is not None
    assert packed is not None
    assert (bytes(plain.body), bytes(packed.body)) == (b"script", b"packed")
    assert packed.headers["content-encoding"] == "gzip"
    assert "immutable" in plain.headers["cache-control"]
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("entry.json", "../entry.json", "..%2fentry.json", "", ".", "link", "nothing.js"):
        assert built.file(name, compressed=False) is None, name


def test_a_checkout_without_a_build_names_the_command(plane: Served, tmp_path: Path) -> None:
    answer = PageFiles(tmp_path / "none").document({})
    assert answer.status_code == 503
    assert b"make page" in bytes(answer.body)


def test_a_path_of_no_page_is_an_error_for_programs(plane: Served) -> None:
    for path in ("/nothing", "/assets/nothing.js"):
        answer, content = get(plane, path, Accept="application/json")
        assert answer.status == 404
        assert "error" in json.loads(content)

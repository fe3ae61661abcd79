"""Who a site takes us for, and how requests to it fail (K7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from certificates import self_signed
from tarmac.engines.unicore.client import LoginRefused, SiteAnswer, Unicore
from tarmac.model.errors import InvalidInput, Unavailable
from unicore_server import SESSION, Served
from unicore_sites import access

LATE = httpx.Timeout(0.2, connect=5.0)


def of(site: Served, *, password: str = "pass of ada", **given: Any) -> Unicore:
    return access(site, lambda: {"user": "ada", "password": password}, **given)


def test_a_password_and_a_token_are_those_of_a_user(site: Served) -> None:
    site.site.tokens["t0ken"] = "bob"
    assert of(site).about()["client"]["xlogin"]["UID"] == "ada"
    by_token = access(site, lambda: {"token": "t0ken\n"})
    assert by_token.about()["client"]["xlogin"]["UID"] == "bob"


def test_a_wrong_password_is_refused_though_the_site_answers_200(site: Served) -> None:
    wrong = of(site, password="wrong")
    with pytest.raises(LoginRefused, match="no user there"):
        wrong.get("/jobs")
    asked = len(site.site.requests)
    with pytest.raises(LoginRefused):
        wrong.get("/jobs")
    assert len(site.site.requests) == asked, "it is not tried again at once: sites lock users out"


def test_another_password_is_tried_at_once(site: Served) -> None:
    given = {"user": "ada", "password": "wrong"}
    client = access(site, lambda: given)
    with pytest.raises(LoginRefused):
        client.about()
    given["password"] = "pass of ada"
    assert client.about()["client"]["role"]["selected"] == "user"


def test_a_certificate_of_an_unknown_authority_is_refused(site: Served, tmp_path: Path) -> None:
    for ca in (None, self_signed(tmp_path / "other.pem")):
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED") as refused:
            of(site, ca=ca).about()
        assert "ca" in (refused.value.hint or "")
    assert site.site.requests == [], "no password went to it"
    with pytest.raises(InvalidInput, match="'ca'"):
        of(site, ca=tmp_path / "missing.pem").about()


def test_a_session_is_used_again_and_replaced_once_it_is_forgotten(site: Served) -> None:
    client = of(site)
    client.get("/jobs")
    client.get("/jobs")
    assert len(site.site.sessions) == 1
    site.site.sessions.clear()
    assert client.get("/jobs") == {"jobs": [], "_links": {}}
    assert len(site.site.sessions) == 1
    assert site.site.requests.count("GET /jobs") == 4, "the third was asked again, without the session"
    site.site.knobs.forgets_sessions = True
    assert client.get("/jobs")["jobs"] == []
    assert SESSION.startswith("X-UNICORE")


def test_the_group_is_sent_as_a_preference(site: Served) -> None:
    of(site, group="proj").get("/jobs")
    assert set(site.site.preferences) == {"group:proj"}


def test_no_answer_and_an_error_are_unavailable(site: Served) -> None:
    client = of(site, timeout=LATE)
    client.about()
    site.site.knobs.down = True
    with pytest.raises(SiteAnswer, match=r"shutting down \(503\)"):
        client.get("/jobs")
    site.site.knobs.down, site.site.knobs.delay_s = False, 0.5
    with pytest.raises(Unavailable, match="timed out"):
        client.get("/jobs")
    site.site.knobs.delay_s = 0.0
    assert client.get("/jobs")["jobs"] == []
    nowhere = Unicore("https://127.0.0.1:9/SITE/rest/core", lambda: {"token": "t0ken"}, ca=site.ca)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        nowhere.about()

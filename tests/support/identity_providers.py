"""Real identity providers (npm's oidc-provider, PyPI's canaille), and a browser that fills in their pages."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import unescape
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest

DIRECTORY = Path(__file__).resolve().parents[1] / "data/identity_provider"
CANAILLE = Path(__file__).resolve().parents[2] / ".venv-sign-on/bin/python"
CLIENT, SECRET = "tarmac", "the secret of the client"


@contextmanager
def real_provider(*, devices: bool, groups: Mapping[str, Sequence[str]], port: int = 0) -> Iterator[str]:
    """The issuer of a provider that answers until the block ends; skips the test where there is none."""
    if not (DIRECTORY / "node_modules").exists():
        pytest.skip("oidc-provider is not installed: make sign-on")
    given = json.dumps({"devices": devices, "groups": groups, "port": port})
    with _running("node", str(DIRECTORY / "provider.mjs"), given) as issuer:
        yield issuer


@contextmanager
def canaille(redirect_uri: str) -> Iterator[str]:
    """The issuer of a canaille where grace, one of gpu-admins, is logged in; skips the test without one."""
    if not CANAILLE.exists():
        pytest.skip("canaille is not installed: make sign-on")
    with _running(str(CANAILLE), str(DIRECTORY / "canaille_provider.py"), redirect_uri) as issuer:
        yield issuer


@contextmanager
def _running(*command: str) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Browser:
    """A user's browser, which keeps cookies and follows redirections."""

    def __init__(self, user: str) -> None:
        self._user = user
        policy = DefaultCookiePolicy(strict_ns_domain=DefaultCookiePolicy.DomainLiberal)
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar(policy)), urllib.request.ProxyHandler({})
        )

    def visit(self, url: str, code: str = "") -> str:
        """Fill in each page from this one on, as the user does; the text of the last one."""
        address, page = self._open(url)
        while (form := re.search(r'<form[^>]* action="([^"]+)"[^>]*>(.*?)</form>', page, re.DOTALL)) and (
            "Sign-in Success" not in page
        ):
            fields = dict(_fields(form[2]))
            if "user_code" in fields or "xsrf" in fields:
                fields |= {"user_code": code} if "confirm" not in fields else {}
            if "login" in fields:
                fields |= {"login": self._user, "password": "any"}
            address, page = self._open(urljoin(address, unescape(form[1])), urlencode(fields).encode())
        return page

    def _open(self, url: str, data: bytes | None = None) -> tuple[str, str]:
        with self._opener.open(url, data, timeout=60) as answer:
            return answer.url, answer.read().decode()


def _fields(form: str) -> Iterator[tuple[str, str]]:
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = (re.search(rf'{key}="([^"]*)"', tag) for key in ("name", "value"))
        if name:
            yield name[1], unescape(value[1]) if value else ""

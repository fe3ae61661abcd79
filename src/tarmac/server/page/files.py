"""The built files of the page: `web/build.mjs` writes them here, and wheels contain them. Used by the routes.

A checkout may lack them: then the page says which command builds them.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

BUILT = Path(__file__).with_name("built")
BUILD = "make page"

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Loaded(Struct, frozen=True):
    """The files that a document loads: its script, the modules that this imports, and its style."""

    script: str
    modules: list[str]
    style: str


class Entry(Struct, frozen=True):
    """The documents: that of terminals, and that of all other pages."""

    page: Loaded
    terminal: Loaded
    icon: str


class PageFiles:
    """The files of a build. `directory` has `entry.json`, and files whose names change with their content."""

    def __init__(self, directory: Path = BUILT) -> None:
        self._directory = directory

    @cached_property
    def _entry(self) -> Entry | None:
        try:
            return msgspec.json.decode((self._directory / "entry.json").read_bytes(), type=Entry)
        except (FileNotFoundError, msgspec.DecodeError):  # none, or that of another version
            return None

    def document(self, first: Any, *, status: int = 200, terminal: bool = False) -> Response:
        """The document of a page. `first` is the answer to its first requests, which it need not send."""
        nonce = secrets.token_urlsafe(16)
        policy = _policy(_TERMINAL_STYLES if terminal else f"'nonce-{nonce}'")
        headers = {**_HEADERS, "Content-Security-Policy": policy, "Cache-Control": "no-store"}
        entry = self._entry
        if entry is None:
            text = _MISSING.format(command=escape(BUILD))
            return Response(text, status_code=503, media_type="text/html", headers=headers)
        data = msgspec.json.encode(first).decode()
        for character in "<>&\u2028\u2029":
            data = data.replace(character, f"\\u{ord(character):04x}")
        loaded = entry.terminal if terminal else entry.page
        modules = "".join(f'<link rel="modulepreload" href="/assets/{name}">' for name in loaded.modules)
        text = _DOCUMENT.format(loaded=loaded, icon=entry.icon, modules=modules, nonce=nonce, data=data)
        return Response(text, status_code=status, media_type="text/html", headers=headers)

    def file(self, name: str, *, compressed: bool) -> Response | None:
        """A built file; None for any other name. `compressed`: the browser takes gzip."""
        path = self._directory / name
        kind = _TYPES.get(path.suffix)
        if kind is None or path.name != name or not path.is_file():
            return None
        headers = {
            **_HEADERS,
            "Cache-Control": "public, max-age=31536000, immutable",
            "Vary": "Accept-Encoding",
        }
        packed = path.with_name(f"{name}.gz")
        if compressed and packed.is_file():
            headers["Content-Encoding"] = "gzip"
            path = packed
        return Response(path.read_bytes(), media_type=kind, headers=headers)


_TERMINAL_STYLES = "'self' 'unsafe-inline'"
"""A terminal writes rules of style while it runs, for its colours and its size."""


def _policy(styles: str) -> str:
    """The rights of the page: nothing from elsewhere, no inline script, no HTML made of texts."""
    return (
        f"default-src 'none'; script-src 'self'; connect-src 'self'; style-src {styles}; "
        "img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>tarmac</title>
<link rel="icon" href="/assets/{icon}" type="image/svg+xml">
<link rel="stylesheet" href="/assets/{loaded.style}" nonce="{nonce}">
{modules}
<script type="module" src="/assets/{loaded.script}"></script>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="first" data-nonce="{nonce}">{data}</script>
<noscript>This page needs JavaScript. Every page has a command as well: tarmac --help.</noscript>
</body>
</html>
"""

_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>tarmac</title>
<h1>The page is not built</h1>
<p>This server runs from a checkout without the built files of its page. Build them, and reload:</p>
<pre>{command}</pre>
</html>
"""

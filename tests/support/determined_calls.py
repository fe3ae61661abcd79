"""Requests to the gateway as Determined's clients send them, over the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

Answer = tuple[int, Any]


class DeterminedCalls:
    """A client of the gateway at a port of this machine, with a token."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self.token = token

    def get(self, path: str, **query: Any) -> Answer:
        """Ask; lists in the query stand several times."""
        return self.ask("GET", f"{path}?{urlencode(query, doseq=True)}" if query else path)

    def post(self, path: str, body: Any = None) -> Answer:
        """Have something done."""
        return self.ask("POST", path, body)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The status and the JSON of an answer."""
        status, data = self.raw(method, path, json.dumps(body).encode() if raw is None else raw, headers)
        return status, json.loads(data)

    def raw(
        self, method: str, path: str, data: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status and the bytes of an answer."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, body=data, headers={**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

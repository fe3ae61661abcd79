"""The methods about secrets, and their records of docs/api.md. Used by `client.Client`."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import urlencode

from tarmac.client.calls import Calls, segment


class SecretRecord(TypedDict):
    name: str
    number: int
    user: str
    created_at: float
    form: str | None
    variable: str | None
    path: str | None


class RotationRecord(TypedDict):
    values: int


class SecretCalls(Calls):
    """One method per route. Inherited by `Client`. No method returns a value: none can be had back."""

    def secrets(self) -> list[SecretRecord]:
        """Every secret, without its value."""
        answer: list[SecretRecord] = self._get("/secrets")
        return answer

    def set_secret(
        self,
        name: str,
        value: str,
        *,
        form: str | None = None,
        variable: str | None = None,
        path: str | None = None,
    ) -> SecretRecord:
        """Keep a value, in place of an earlier one; runs get it when they are next started."""
        body = {"value": value, "form": form, "variable": variable, "path": path}
        answer: SecretRecord = self._send("PUT", f"/secrets/{segment('secret', name)}", body)
        return answer

    def remove_secret(self, name: str, *, force: bool = False, purge: bool = False) -> SecretRecord | None:
        """Give a secret to no run any more; with `purge`, its values are forgotten as well."""
        query = urlencode({"force": str(force).lower(), "purge": str(purge).lower()})
        path = f"/secrets/{segment('secret', name)}?{query}"
        answer: SecretRecord | None = self._send("DELETE", path)
        return answer

    def rotate_secrets(self) -> RotationRecord:
        """Seal every value with a new key, and forget the old ones."""
        answer: RotationRecord = self._send("POST", "/secrets/rotate")
        return answer

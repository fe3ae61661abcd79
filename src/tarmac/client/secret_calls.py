"""The methods about secrets. Inherited by `client.Client`."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlencode

from tarmac import api
from tarmac.client.calls import Calls, segment


class SecretCalls(Calls):
    """One method per route. Inherited by `Client`. No method returns a value: values are write-only."""

    def secrets(self) -> list[api.Secret]:
        """Every secret, without its value."""
        return self._get_as(list[api.Secret], "/secrets")

    def set_secret(
        self,
        name: str,
        value: str,
        *,
        form: str | None = None,
        variable: str | None = None,
        path: str | None = None,
    ) -> api.Secret:
        """Store a value, which replaces an earlier one; runs get it at their next start."""
        body = {"value": value, "form": form, "variable": variable, "path": path}
        return self._send_as(api.Secret, "PUT", f"/secrets/{segment('secret', name)}", body)

    def remove_secret(self, name: str, *, force: bool = False, purge: bool = False) -> api.Secret | None:
        """Stop giving a secret to runs; `purge` deletes its values as well."""
        query = urlencode({"force": str(force).lower(), "purge": str(purge).lower()})
        path = f"/secrets/{segment('secret', name)}?{query}"
        kind = cast("type[api.Secret | None]", api.Secret | None)
        return self._send_as(kind, "DELETE", path)

    def rotate_secrets(self) -> api.Rotation:
        """Seal every value with a new key, and delete the old ones."""
        return self._send_as(api.Rotation, "POST", "/secrets/rotate")

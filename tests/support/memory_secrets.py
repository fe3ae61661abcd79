"""`MemorySecrets`: the record of secrets as a fake that passes the same suite. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from tarmac.model.codec import replace
from tarmac.model.secret import SecretName, SecretVersion
from tarmac.store.checks import check_secret

_Key = tuple[str, str, int]


class MemorySecrets:
    """Implements `model.secret.SecretRecords` in memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[_Key, SecretVersion] = {}

    def versions(self, names: Sequence[str] | None = None) -> list[SecretVersion]:
        with self._lock:
            return [row for key, row in sorted(self._rows.items()) if names is None or row.name in names]

    def add(self, version: SecretVersion) -> bool:
        check_secret(version)
        with self._lock:
            return self._rows.setdefault(_key(version), version) is version

    def reseal(self, versions: Sequence[SecretVersion]) -> None:
        with self._lock:
            for version in versions:
                if (row := self._rows.get(_key(version))) is not None:
                    changed = replace(row, sealed=version.sealed, key_id=version.key_id)
                    self._rows[_key(version)] = changed

    def retire(self, secret: SecretName, *, at: float) -> None:
        with self._lock:
            for key, row in self._rows.items():
                if key[:2] == (secret.name, secret.scope) and row.retired_at is None:
                    self._rows[key] = replace(row, retired_at=at)

    def purge(self, secret: SecretName) -> None:
        with self._lock:
            self._rows = {
                key: row for key, row in self._rows.items() if key[:2] != (secret.name, secret.scope)
            }


def _key(version: SecretVersion) -> _Key:
    return version.name, version.scope, version.number

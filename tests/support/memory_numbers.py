"""`MemoryNumbers`: numbers of things as a fake that passes the same suite. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from tarmac.model.run_records import NumberKind
from tarmac.store.checks import storable


class MemoryNumbers:
    """Implements `model.numbering.Numbers` in memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ids: dict[NumberKind, dict[str, int]] = {kind: {} for kind in NumberKind}

    def numbers(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        with self._lock:
            known = self._ids[kind]
            for each in ids:
                if storable(each):
                    known.setdefault(each, max(known.values(), default=0) + 1)
            return {each: known[each] for each in ids if each in known}

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        with self._lock:
            return {each: self._ids[kind][each] for each in ids if each in self._ids[kind]}

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        with self._lock:
            known = self._ids[kind]
            if of in known and to not in known and storable(to):
                known[to] = known.pop(of)

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        with self._lock:
            return next((each for each, value in self._ids[kind].items() if value == number), None)

"""The server's end of the relay: answers requests of sidecars for a store that only the server can access.

Called through `engines/hosts/relaying.py`, for each node; `relayed` defines the requests. An attempt may
write versions of its own run, and only while it is the live one: requests of an older attempt, from a node
that was cut off meanwhile, are refused, and the store remains unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from tarmac.artifacts.versions import manifest as stored
from tarmac.artifacts.versions import store_lock
from tarmac.artifacts.versions.blobs import MARK, Blobs, DirectoryBlobs
from tarmac.artifacts.versions.manifest import BLOBS, CHUNK_BYTES, MANIFESTS, Broken, Version
from tarmac.model.errors import Refused, TarmacError, Unavailable
from tarmac.node.attempt.protocol import ARTIFACT_KINDS

GRANT_S = 1.0
PIECE_BYTES = 1 << 20
LARGEST_MANIFEST_BYTES = 512 * 1024 * 1024
_LARGEST_CLAIM_BYTES = 100

_CONTENT = re.compile(rf"{BLOBS}/([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The permissions of a live attempt: its run and number, and the versions it may read beside its own."""

    run_id: str
    number: int
    inputs: Collection[str] = ()


FindGrant = Callable[[str, str], Grant | None]
"""The grant of an attempt (id) with this token; None if unknown or ended. May raise Unavailable."""


Answer = tuple[Mapping[str, Any], Iterator[bytes]]


class _Content(NamedTuple):
    """The content of a request."""

    size_bytes: int
    pieces: Iterator[bytes]


class StoreServer:
    """Answers for one store. Thread-safe."""

    def __init__(self, blobs: Callable[[], Blobs], find_grant: FindGrant) -> None:
        self._blobs = blobs
        self._find_grant = find_grant
        self._newest: dict[str, int] = {}
        self._grants: dict[tuple[str, str], tuple[Grant, float]] = {}
        self._lock = Lock()

    def answer(self, request: Mapping[str, Any], size_bytes: int, pieces: Iterator[bytes]) -> Answer:
        """Execute the request: returns the answer and its content, in pieces, as the request's content
        arrives.
        """
        try:
            return self._answer(request, _Content(size_bytes, pieces))
        except Unavailable as error:
            return {"down": str(error)}, iter(())
        except (TarmacError, Broken, KeyError, TypeError, ValueError) as error:
            return {"refused": str(error) or type(error).__name__}, iter(())

    def _answer(self, request: Mapping[str, Any], content: _Content) -> Answer:
        do = request["do"]
        grant = self._grant(request)
        if do == "pieces":
            return {}, self._list(grant, request["prefix"])
        name = str(request["name"])
        if do == "put":
            return self._put(grant, name, request["digest"], content)
        if do == "create":
            return self._create(grant, request, name, content)
        if do == "remove":
            _check(_is_claim_of(grant, name), name)
            self._blobs().remove(name)
            return {}, iter(())
        _check(do in ("get", "has") and self._may_read(grant, name), name)
        if do == "has":
            return {"there": self._blobs().has(name)}, iter(())
        return self._get(name)

    # --- who may what

    def _grant(self, request: Mapping[str, Any]) -> Grant:
        """The grant of the client; the first request of an attempt revokes those of older ones."""
        attempt_id = str(request["attempt"])
        grant = self._known(attempt_id, str(request["token"]))
        if grant is not None:
            with self._lock:
                if self._newest.get(grant.run_id, 0) <= grant.number:
                    self._newest[grant.run_id] = grant.number
                    return grant
        raise Refused(f"attempt {attempt_id} is not the live one of its run: the store takes nothing of it")

    def _known(self, attempt_id: str, token: str) -> Grant | None:
        """A grant found a moment ago is valid for all requests except a new version."""
        key, now = (attempt_id, token), time.monotonic()
        known = self._grants.get(key)
        if known is not None and now - known[1] < GRANT_S:
            return known[0]
        grant = self._find_grant(attempt_id, token)
        self._grants = {other: each for other, each in self._grants.items() if now - each[1] < GRANT_S}
        if grant is not None:
            self._grants[key] = (grant, now)
        return grant

    def _may_read(self, grant: Grant, name: str) -> bool:
        if name in (MARK, store_lock.COLLECTING) or _CONTENT.fullmatch(name):
            return True
        version = _version(name)
        return version is not None and (version.run_id == grant.run_id or version.id in grant.inputs)

    # --- what is asked

    def _put(self, grant: Grant, name: str, digest: str, content: _Content) -> Answer:
        blobs = self._blobs()
        if _is_claim_of(grant, name):
            for _ in _checked(content, digest, _LARGEST_CLAIM_BYTES):
                pass
            blobs.put(name, store_lock.timestamp())  # by this clock: that of the node may differ
            return {}, iter(())
        found = _CONTENT.fullmatch(name)
        _check(found is not None and found[2] == digest, name)
        pieces = _checked(content, digest, CHUNK_BYTES)
        if isinstance(blobs, DirectoryBlobs):
            blobs.put_pieces(name, pieces)
        else:
            blobs.put(name, b"".join(pieces))
        return {}, iter(())

    def _create(self, grant: Grant, request: Mapping[str, Any], name: str, content: _Content) -> Answer:
        """Create a version, once all of its content is in the store."""
        version = _version(name)
        if version is None or version.run_id != grant.run_id:
            raise _not_allowed(name)
        data = b"".join(_checked(content, request["digest"], LARGEST_MANIFEST_BYTES))
        manifest = stored.from_bytes(data, version)
        if manifest.attempt > grant.number:
            raise Refused(f"{version.id} is of attempt {manifest.attempt}, not of {grant.number}")
        blobs = self._blobs()
        for name_of_piece in {chunk.name for entry in manifest.entries for chunk in entry.chunks}:
            if not blobs.has(name_of_piece):
                raise Unavailable(f"{version.id} names a piece that the store does not hold")
        with self._lock:  # a later attempt with any earlier request finds this version, or prevents it
            if (
                self._newest[grant.run_id] != grant.number
                or self._find_grant(str(request["attempt"]), str(request["token"])) is None
            ):
                raise Refused(f"attempt {request['attempt']} is not the live one of its run any more")
            made = blobs.create(version.name, data)
        return {"made": made}, iter(())

    def _get(self, name: str) -> Answer:
        blobs = self._blobs()
        if isinstance(blobs, DirectoryBlobs):
            pieces = blobs.get_pieces(name, PIECE_BYTES)
        else:
            data = blobs.get(name)
            pieces = None if data is None else _pieces_of(data)
        return ({"there": False}, iter(())) if pieces is None else ({"there": True}, pieces)

    def _list(self, grant: Grant, prefix: str) -> Iterator[bytes]:
        own = f"{MANIFESTS}/{grant.run_id}"
        _check(prefix == own or prefix.startswith(f"{own}/"), prefix)
        _check(".." not in prefix.split("/"), prefix)
        found = [[*piece] for piece in self._blobs().pieces(prefix)]
        return _pieces_of(json.dumps(found).encode())


def _check(allowed: bool, name: str) -> None:
    if not allowed:
        raise _not_allowed(name)


def _not_allowed(name: str) -> Refused:
    return Refused(f"an attempt may not use {name!r:.200} of the store")


def _version(name: str) -> Version | None:
    """The version of that name, if tarmac could have made the name."""
    version = stored.version_named(name)
    return (
        version if version is not None and version.kind in ARTIFACT_KINDS and version.name == name else None
    )


def _is_claim_of(grant: Grant, name: str) -> bool:
    """Whether the name is a claim of a running sync of this run (see `store_lock`)."""
    return re.fullmatch(rf"{store_lock.SYNCING}/{re.escape(grant.run_id)}\.[a-z0-9.]+", name) is not None


def _checked(content: _Content, digest: str, limit_bytes: int) -> Iterator[bytes]:
    """The received pieces; raises before the last one if the content does not match its digest."""
    if content.size_bytes > limit_bytes:
        raise Refused(f"{content.size_bytes} bytes are more than the {limit_bytes} that may come at once")
    found = hashlib.sha256()
    for piece in content.pieces:
        found.update(piece)
        yield piece
    if found.hexdigest() != digest:
        raise Unavailable("what came is not what was sent: its digest differs")


def _pieces_of(data: bytes) -> Iterator[bytes]:
    for begin in range(0, len(data), PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES]

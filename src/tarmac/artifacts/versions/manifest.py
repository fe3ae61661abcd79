"""The manifest of a version: its entries with digests, stored as one piece; and the manifests of a store.

A version exists once its manifest does. `Entry.chunks` name the pieces of a file, in order, by the SHA-256 of
their content; so equal content is stored once, for all versions, runs and files.

    manifests/RUN/KIND/RANK/NUMBER      one version: RANK is that of its node
    blobs/aa/aabbcc...                  one piece of content
    syncing/...  collecting             the locks (see `store_lock`)

The id of a version is RUN.KIND.NUMBER; from a node of another rank than 0, RUN.KIND.NUMBER.RANK.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.model.errors import NotFound
from tarmac.node.attempt.protocol import ARTIFACT_KINDS as KINDS

FORMAT = 1
CHUNK_BYTES = 8 * 1024 * 1024
"""A bigger file is split into pieces: unchanged pieces are stored once, and an interrupted sync continues."""

FILE, DIRECTORY, LINK = "file", "directory", "link"

MANIFESTS = "manifests"
BLOBS = "blobs"

_ID = re.compile(
    r"(?P<run>[A-Za-z0-9][A-Za-z0-9_-]{0,99})\.(?P<kind>[a-z]+)(\.(?P<number>[1-9][0-9]{0,8})(\.(?P<rank>[0-9]{1,6}))?)?"
)
_NAME = re.compile(rf"{MANIFESTS}/([^/]+)/([^/]+)/([0-9]+)/([0-9]+)")


class Broken(Exception):
    """A manifest or piece is damaged, or of another format."""


class Chunk(NamedTuple):
    """One piece of a file."""

    digest: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The name of the piece in the store."""
        return f"{BLOBS}/{self.digest[:2]}/{self.digest}"


class Entry(NamedTuple):
    """A file, directory or link; `path` is relative to the artifact directory.

    `target` is the text of a link, or, where `inside`, an absolute link to that path of the same artifact.
    """

    path: str
    kind: str
    mode: int = 0
    size_bytes: int = 0
    mtime_ns: int = 0
    chunks: tuple[Chunk, ...] = ()
    target: str = ""
    inside: bool = False


class Version(NamedTuple):
    """The identity of a version: orders by run, kind, rank and number."""

    run_id: str
    kind: str
    rank: int
    number: int

    @property
    def id(self) -> str:
        """The id that users type and see."""
        rank = f".{self.rank}" if self.rank else ""
        return f"{self.run_id}.{self.kind}.{self.number}{rank}"

    @property
    def name(self) -> str:
        """The name of its manifest in the store."""
        return f"{directory_of(self.run_id, self.kind, self.rank)}/{self.number:09d}"


class Manifest(NamedTuple):
    """A version and its entries. `read_at` is the time of the directory's reading.

    `left_out` are the paths of incomplete files and directories. For checkpoints, `saved_at` is the save time
    of the newest (0: there is none), and `step` its step if the SDK made it.
    """

    version: Version
    attempt: int
    created_at: float
    read_at: float
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()
    saved_at: float = 0.0
    step: int | None = None

    @property
    def size_bytes(self) -> int:
        """The total size of its files."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def files(self) -> int:
        """The number of its files."""
        return sum(entry.kind == FILE for entry in self.entries)


def directory_of(run_id: str, kind: str, rank: int) -> str:
    """The prefix of the manifests of one node's artifact of a run."""
    return f"{MANIFESTS}/{run_id}/{kind}/{rank}"


def version_named(name: str) -> Version | None:
    """The version whose manifest has this name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Version(run_id=match[1], kind=match[2], rank=int(match[3]), number=int(match[4]))


def parse_id(text: str) -> Version | None:
    """The version that an id names, with the number 0 for the latest; None for a text of another form."""
    match = _ID.fullmatch(text)
    if match is None or match["kind"] not in KINDS:
        return None
    return Version(match["run"], match["kind"], int(match["rank"] or 0), int(match["number"] or 0))


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest in its stored form, with a digest over itself."""
    fields = {
        "format": FORMAT,
        **manifest._asdict(),
        "version": manifest.version.id,
        "entries": [
            {name: value for name, value in entry._asdict().items() if value} for entry in manifest.entries
        ],
    }
    return json.dumps({**fields, "digest": _digest(fields)}, separators=(",", ":")).encode()


def from_bytes(data: bytes, version: Version) -> Manifest:
    """The manifest in these bytes; raises Broken. Paths are checked to be inside."""
    try:
        fields = json.loads(data)
        digest = fields.pop("digest")
        if fields["format"] != FORMAT or digest != _digest(fields) or fields["version"] != version.id:
            raise Broken(f"{version.id} is damaged, or was kept by another version of tarmac")
        return Manifest(
            version=version,
            attempt=int(fields["attempt"]),
            created_at=float(fields["created_at"]),
            read_at=float(fields["read_at"]),
            entries=tuple(_entry(item) for item in fields["entries"]),
            left_out=tuple(map(str, fields.get("left_out") or ())),
            saved_at=float(fields.get("saved_at", fields["read_at"])),  # absent in earlier releases
            step=fields.get("step"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Broken(f"{version.id} cannot be read: {error}") from error


def clashes(manifests: Sequence[Manifest]) -> Mapping[str, tuple[str, str]]:
    """Paths that two artifacts of one kind share, other than as a directory, with the two artifacts."""
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    found: dict[str, tuple[str, str]] = {}
    for manifest in manifests:
        for entry in manifest.entries:
            key = (manifest.version.kind, entry.path)
            other = seen.setdefault(key, (manifest.version.id, entry.kind))
            if other[0] != manifest.version.id and not other[1] == entry.kind == DIRECTORY:
                found[entry.path] = (other[0], manifest.version.id)
    return found


def _entry(fields: Mapping[str, Any]) -> Entry:
    path, kind = fields["path"], fields["kind"]
    check_path(path)
    if kind not in (FILE, DIRECTORY, LINK):
        raise ValueError(f"{path!r} is a {kind!r}")
    chunks = tuple(Chunk(_hex(digest), int(size)) for digest, size in fields.get("chunks", ()))
    target, inside = str(fields.get("target", "")), bool(fields.get("inside"))
    if inside and target:
        check_path(target)
    return Entry(
        path=path,
        kind=kind,
        mode=int(fields.get("mode", 0)) & 0o7777,
        size_bytes=sum(chunk.size_bytes for chunk in chunks),
        mtime_ns=int(fields.get("mtime_ns", 0)),
        chunks=chunks,
        target=target,
        inside=inside,
    )


def check_path(path: str) -> None:
    """Raise ValueError for a path that does not remain inside."""
    if not path or path.startswith("/") or "\0" in path or {"", ".", ".."} & set(path.split("/")):
        raise ValueError(f"{path!r} would lie outside the artifact")


def _hex(digest: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise ValueError(f"{digest!r} is no digest")
    return digest


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def versions(blobs: Blobs, run_id: str | None = None) -> list[Version]:
    """All versions of a run (or of all runs), in order."""
    return sorted(_versions(blobs, f"{MANIFESTS}/{run_id}" if run_id else MANIFESTS))


def latest(blobs: Blobs, run_id: str, kind: str, rank: int) -> Version | None:
    """The newest whole version of one kind of artifact of a run, from the node of that rank."""
    return max(_versions(blobs, directory_of(run_id, kind, rank)), default=None)


def read_manifest(blobs: Blobs, version: Version) -> Manifest:
    """The content of a version; raises NotFound if it does not exist, Broken if it is damaged."""
    data = blobs.get(version.name)
    if data is None:
        raise NotFound(f"there is no artifact {version.id}")
    return from_bytes(data, version)


def readable_manifests(blobs: Blobs, run_id: str, kind: str, rank: int) -> Iterator[Manifest]:
    """The readable versions from the node of that rank, newest first."""
    for version in sorted(_versions(blobs, directory_of(run_id, kind, rank)), reverse=True):
        with suppress(NotFound, Broken):  # removed meanwhile, or damaged
            yield read_manifest(blobs, version)


def read_chunk(blobs: Blobs, chunk: Chunk) -> bytes:
    """A piece of a file; raises Broken if it is missing or damaged."""
    data = blobs.get(chunk.name)
    if data is None:
        raise Broken(f"the piece {chunk.digest[:12]} is gone from the artifact store")
    if hashlib.sha256(data).hexdigest() != chunk.digest:
        raise Broken(f"the piece {chunk.digest[:12]} is damaged in the artifact store")
    return data


def _versions(blobs: Blobs, prefix: str) -> Iterator[Version]:
    for piece in blobs.pieces(prefix):
        version = version_named(piece.name)
        if version is not None:
            yield version

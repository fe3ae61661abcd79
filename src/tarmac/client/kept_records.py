"""Artifacts and datasets as the client gets them: records of docs/api.md. Used by `kept_calls`."""

from __future__ import annotations

from typing import TypedDict


class ArtifactRecord(TypedDict):
    id: str
    run: str
    run_name: str | None
    kind: str
    number: int
    rank: int
    attempt: int
    created_at: float
    files: int
    bytes: int
    left_out: list[str]


class PieceRecord(TypedDict):
    digest: str
    bytes: int


class ArtifactEntryRecord(TypedDict):
    path: str
    kind: str
    mode: int
    bytes: int
    mtime_ns: int
    pieces: list[PieceRecord]
    target: str
    inside: bool


class ArtifactContentRecord(TypedDict):
    artifact: ArtifactRecord
    entries: list[ArtifactEntryRecord]


class DatasetRecord(TypedDict):
    id: str
    source: str
    user: str
    created_at: float
    state: str
    path: str | None
    done_bytes: int
    total_bytes: int | None
    message: str | None

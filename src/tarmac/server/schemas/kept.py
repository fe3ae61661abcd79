"""Artifacts and datasets as the API answers them, and clients send them. Made in `kept_records`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Artifact(BaseModel):
    """One version of an artifact of a run. `rank` is that of the node it came from.

    `left_out` are the paths of files and directories that were there and not whole.
    """

    model_config = ConfigDict(extra="forbid")

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


class Piece(BaseModel):
    """A piece of a file, by the SHA-256 of its content."""

    model_config = ConfigDict(extra="forbid")

    digest: str
    bytes: int


class ArtifactEntry(BaseModel):
    """A file, directory or link of an artifact. `inside`: an absolute link to that path of the artifact."""

    model_config = ConfigDict(extra="forbid")

    path: str
    kind: str
    mode: int
    bytes: int
    mtime_ns: int
    pieces: list[Piece]
    target: str
    inside: bool


class ArtifactContent(BaseModel):
    """One version and all it holds."""

    model_config = ConfigDict(extra="forbid")

    artifact: Artifact
    entries: list[ArtifactEntry]


class Dataset(BaseModel):
    """A dataset; `path` is where it lies on the server's machine, once it is there."""

    model_config = ConfigDict(extra="forbid")

    id: str
    source: str
    user: str
    created_at: float
    state: str
    path: str | None
    done_bytes: int
    total_bytes: int | None
    message: str | None


class DatasetBody(BaseModel):
    """A dataset to take up."""

    model_config = ConfigDict(extra="forbid", title="NewDataset")

    id: str
    source: str = Field(description="an absolute path on the server's machine, or a URL that fsspec knows")

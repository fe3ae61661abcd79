"""Files that a server keeps of runs and for them: artifacts, datasets, secrets, code.

Made in `server.routes`.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class Artifact(TypedDict):
    """One version of an artifact of a run. `rank` is that of the node it came from.

    `left_out` are the paths of files and directories that existed and were not complete.
    """

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


class Piece(TypedDict):
    """A piece of a file, by the SHA-256 of its content."""

    digest: str
    bytes: int


class ArtifactEntry(TypedDict):
    """A file, directory or link of an artifact. `inside`: an absolute link to that path of the artifact."""

    path: str
    kind: str
    mode: int
    bytes: int
    mtime_ns: int
    pieces: list[Piece]
    target: str
    inside: bool


class ArtifactContent(TypedDict):
    """One version and its content."""

    artifact: Artifact
    entries: list[ArtifactEntry]


class Dataset(TypedDict):
    """A dataset; `path` is its place on the server's machine, once it is there."""

    id: str
    source: str
    user: str
    created_at: float
    state: str
    path: str | None
    done_bytes: int
    total_bytes: int | None
    message: str | None


class KeptImage(TypedDict):
    """An image on a node; `node` "": on every node of the cluster, which share one directory of images."""

    cluster: str
    node: str
    name: str
    digest: str
    size_bytes: int
    disk_bytes: int
    fetched_at: float
    used_at: float
    in_use: bool


class ImageList(TypedDict):
    """The images of the nodes; `troubles` has the reasons of clusters that report none."""

    images: list[KeptImage]
    troubles: dict[str, str]


class Secret(TypedDict):
    """A secret without its value. `number` counts its values so far."""

    name: str
    number: int
    user: str
    created_at: float
    form: str | None
    variable: str | None
    path: str | None


class Rotation(TypedDict):
    """The number of values that were sealed with the new key."""

    values: int


class CodeDirectory(TypedDict):
    """A directory (or archive) of the client's machine, and the rules for files to leave out."""

    path: str
    ignore_file: str | None
    exclude: list[str]
    whole: bool
    limit_bytes: int


class CodeNeeded(TypedDict):
    """The code that a client has to send before it submits; null if none is needed."""

    directory: CodeDirectory | None


class CodeChange(TypedDict):
    """A file of the code that differs between two runs: `change` is `added`, `removed` or `changed`."""

    path: str
    change: str


class MissingContents(TypedDict):
    """The contents that the server does not have."""

    missing: list[str]


class UploadedPack(TypedDict):
    """The number of contents of a pack that arrived."""

    kept: int


class UploadedTree(TypedDict):
    """The digest of a snapshot, which a submission names as `code_digest`."""

    digest: str

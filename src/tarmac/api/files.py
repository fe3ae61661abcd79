"""Files that a server keeps of runs and for them: artifacts, datasets, secrets, code.

Made in `server.routes`.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Artifact(Struct, frozen=True, kw_only=True):
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
    left_out: Sequence[str]


class Piece(Struct, frozen=True, kw_only=True):
    """A piece of a file, by the SHA-256 of its content."""

    digest: str
    bytes: int


class ArtifactEntry(Struct, frozen=True, kw_only=True):
    """An entry of an artifact: `kind` is `file`, `directory` or `link`, and `target` that of a link.

    `inside`: an absolute link to that path of the artifact.
    """

    path: str
    kind: str
    mode: int
    bytes: int
    mtime_ns: int
    pieces: Sequence[Piece]
    target: str
    inside: bool


class ArtifactContent(Struct, frozen=True, kw_only=True):
    """One version and its content."""

    artifact: Artifact
    entries: Sequence[ArtifactEntry]


class Rotation(Struct, frozen=True, kw_only=True):
    """The number of values that were sealed with the new key."""

    values: int


class CodeDirectory(Struct, frozen=True, kw_only=True):
    """A directory (or archive) of the client's machine, and the rules for files to leave out.

    `extra_files` (path in the copy: file of that machine) are sent in any case.
    """

    path: str
    ignore_file: str | None
    exclude: Sequence[str]
    whole: bool
    limit_bytes: int
    extra_files: Mapping[str, str]


class CodeNeeded(Struct, frozen=True, kw_only=True):
    """The code that a client has to send before it submits; null if none is needed."""

    directory: CodeDirectory | None


class CodeChange(Struct, frozen=True, kw_only=True):
    """A file of the code that differs between two runs: `change` is `added`, `removed` or `changed`."""

    path: str
    change: str


class MissingContents(Struct, frozen=True, kw_only=True):
    """The contents that the server does not have."""

    missing: Sequence[str]


class UploadedPack(Struct, frozen=True, kw_only=True):
    """The number of contents of a pack that arrived."""

    kept: int


class UploadedTree(Struct, frozen=True, kw_only=True):
    """The digest of a snapshot, which a submission names as `code_digest`."""

    digest: str

"""What is said about code that a client sends. Used by the routes `/code/...`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class CodeDirectory(BaseModel):
    """A directory (or archive) of the client's machine, and what of it stays behind."""

    path: str
    ignore_file: str | None
    exclude: list[str]
    whole: bool
    limit_bytes: int


class CodeNeeded(BaseModel):
    """What a client has to send before it submits; null where nothing is needed."""

    directory: CodeDirectory | None


class ContentsBody(BaseModel):
    """Contents, by SHA-256 in hexadecimal digits."""

    model_config = ConfigDict(extra="forbid", title="Contents")

    contents: list[str]


class MissingContents(BaseModel):
    """Those of them that the server does not have."""

    missing: list[str]


class KeptPack(BaseModel):
    """How many contents of a pack arrived."""

    kept: int


class KeptTree(BaseModel):
    """The digest of a snapshot: what a submission names as `code_digest`."""

    digest: str

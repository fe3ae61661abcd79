"""The operations that submit runs and experiments, and send their code.

Bound by `server.routes`, called by `client`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, field

from tarmac.api.files import CodeChange, CodeNeeded, MissingContents, UploadedPack, UploadedTree
from tarmac.api.operation import BYTES, JSON, Body, Operation, Query
from tarmac.api.placement import DryRun
from tarmac.api.run_operations import Run
from tarmac.api.server import CheckReport
from tarmac.model.actor import Action

LONGEST_KEY = 255
DEEPEST = 64
"""Maximum depth of values: the server must read stored values again, and real settings are not deeper."""


class ExtrasBody(Body, frozen=True, kw_only=True):
    """Files beside a run file that its dialect reads, and the parameters of an MLflow project.

    `files` has the text of each file by its name, `variables` those of the submitter's shell, `changes` the
    text of a YAML value by its path in the native run file, such as `a.b.0`.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    entry_point: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)


class FileBody(Body, frozen=True, kw_only=True):
    """The facts that a reader needs beside the text of a run file.

    `filename` is the name of the run file for messages and the choice of a dialect, unless `dialect` names
    one. Relative code paths start from `directory`, an absolute path.
    """

    filename: str = "run.yaml"
    directory: str = "/"
    dialect: str | None = None
    extras: ExtrasBody = field(default_factory=ExtrasBody)


class SubmissionBody(FileBody, frozen=True, kw_only=True):
    """A run file (or a run to clone), with the overrides of the command line.

    `source` is the text of the run file. `code_digest` is the snapshot of the code directory, sent before
    (null: the server copies the directory). `overrides` replace values of the file. `clone` is the reference
    of a run, instead of `source`; with both, `source` is the changed text of that run, and its code and its
    submitter's variables stay. With `resume` the clone begins from the last checkpoint of that run, which has
    ended, with its code. `sweep` has values of parameters, as `1e-3,1e-4` or `0..9`: a grid of all.
    `submitter` has PATH, VIRTUAL_ENV and CONDA_PREFIX of the submitter's shell. The same `idempotency_key`
    twice is the same run.
    """

    source: str | None = None
    code_digest: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    clone: str | None = None
    resume: bool = False
    sweep: Mapping[str, str] = field(default_factory=dict)
    submitter: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: Annotated[str, Meta(max_length=LONGEST_KEY)] | None = None

    def __post_init__(self) -> None:
        level, depth = [self.overrides], 0
        while level:
            if depth > DEEPEST:
                raise ValueError(f"overrides: nested more than {DEEPEST} deep")
            inner = [item for item in level if isinstance(item, dict | list)]
            level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
            depth += 1


class BatchBody(Body, frozen=True, kw_only=True):
    """Submissions that belong together: all are accepted, or none."""

    runs: Sequence[SubmissionBody]


class CheckBody(FileBody, frozen=True, kw_only=True):
    """A run file to check."""

    source: str


class ContentsBody(Body, frozen=True, kw_only=True):
    """The SHA-256 hashes of contents in hexadecimal digits."""

    contents: Sequence[str]


class SubmitQuery(Query, frozen=True, kw_only=True):
    """With `dry_run`, the server stores nothing."""

    dry_run: bool = False


class CodeChangesQuery(Query, frozen=True, kw_only=True):
    """`after` is the reference of the run to compare with."""

    after: str


SUBMIT = Operation("POST", "/runs", Action.SUBMIT, Run, query=SubmitQuery, body=SubmissionBody, status=201)
DRY_RUN = Operation("POST", "/runs", Action.SUBMIT, DryRun, query=SubmitQuery, body=SubmissionBody)
SUBMIT_ALL = Operation("POST", "/runs/batch", Action.SUBMIT, list[Run], body=BatchBody, status=201)
CHECK = Operation("POST", "/check", Action.READ, CheckReport, body=CheckBody)
CODE_CHANGES = Operation(
    "GET", "/runs/{run}/code-changes", Action.READ, list[CodeChange], query=CodeChangesQuery
)
CODE_NEEDED = Operation("POST", "/code/needed", Action.SUBMIT, CodeNeeded, body=SubmissionBody)
MISSING_CONTENTS = Operation("POST", "/code/missing", Action.SUBMIT, MissingContents, body=ContentsBody)
SEND_PACK = Operation("POST", "/code/packs", Action.SUBMIT, UploadedPack, stream=BYTES, status=201)
SEND_TREE = Operation("POST", "/code/trees", Action.SUBMIT, UploadedTree, stream=JSON, status=201)

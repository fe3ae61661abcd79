"""What clients send. Checked by FastAPI before a route sees it; used by the routes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LONGEST_KEY = 255
DEEPEST = 64
"""How deep values may be nested: what is kept is read again, and deeper ones are nobody's settings."""


def _shallow(value: Any) -> Any:
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    return value


class ExtrasBody(BaseModel):
    """Files beside a run file that its dialect asks for, and what an MLflow project is run with."""

    model_config = ConfigDict(extra="forbid", title="Extras")

    files: dict[str, str] = Field(default_factory=dict, description="text of each file, by name")
    entry_point: str | None = None
    parameters: dict[str, str] = Field(default_factory=dict)


class SubmissionBody(BaseModel):
    """A run file (or a run to clone), with what the command line changes about it."""

    model_config = ConfigDict(extra="forbid", title="Submission")

    source: str | None = Field(None, description="text of the run file")
    filename: str = Field("run.yaml", description="its name, for messages and the choice of a dialect")
    directory: str = Field("/", description="absolute path that relative code paths start from")
    dialect: str | None = Field(None, description="dialect of the text; else its content shows it")
    extras: ExtrasBody = Field(default_factory=ExtrasBody, description="what goes along with it")
    code_digest: str | None = Field(None, description="snapshot of the code directory, sent before")
    overrides: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(
        default_factory=dict, description="values in place of the file's own"
    )
    clone: str | None = Field(None, description="run reference, instead of source")
    submitter: dict[str, str] = Field(
        default_factory=dict, description="PATH, VIRTUAL_ENV and CONDA_PREFIX of the submitter's shell"
    )
    idempotency_key: str | None = Field(
        None, max_length=LONGEST_KEY, description="the same key twice is the same run"
    )


class BatchBody(BaseModel):
    """Submissions that belong together: all are accepted, or none."""

    model_config = ConfigDict(extra="forbid", title="Batch")

    runs: list[SubmissionBody]


class CheckBody(BaseModel):
    """A run file to check."""

    model_config = ConfigDict(extra="forbid", title="Check")

    source: str
    filename: str = "run.yaml"
    directory: str = "/"
    dialect: str | None = None
    extras: ExtrasBody = Field(default_factory=ExtrasBody)

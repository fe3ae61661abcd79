"""Secrets as the API answers them, and clients send them: a value comes in, and never goes out."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tarmac.model.secret import SecretForm


class Secret(BaseModel):
    """A secret without its value. `number` counts the values that it has had."""

    model_config = ConfigDict(extra="forbid")

    name: str
    number: int
    user: str
    created_at: float
    form: str | None
    variable: str | None
    path: str | None


class SecretBody(BaseModel):
    """A value to keep."""

    model_config = ConfigDict(extra="forbid", title="NewSecret", hide_input_in_errors=True)

    value: str = Field(repr=False)
    form: SecretForm | None = Field(default=None, description="how runs that name it alone are given it")
    variable: str | None = None
    path: str | None = None


class Rotation(BaseModel):
    """How many values were sealed with the new key."""

    model_config = ConfigDict(extra="forbid")

    values: int

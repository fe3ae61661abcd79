"""What all answers of the API have in common. Used by the other schemas."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """An answer, or a part of one, as OpenAPI describes it.

    Nothing is validated with it while serving, so that pydantic need not prepare that at start.
    """

    model_config = ConfigDict(defer_build=True)

"""Providers, shapes, rentals and approvals over HTTP: what each command asks, and who may."""

from __future__ import annotations

import pytest

from served import Served
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused

SHAPE = Shape(
    id="lab-h100",
    provider="lab",
    region="here",
    machine="big",
    slots=8,
    slot_type="h100",
    rate=12.5,
    rated_on="2026-11-01",
)

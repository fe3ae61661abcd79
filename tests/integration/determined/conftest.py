"""A server with the gateway over a simulated engine, and calls of the user who is logged in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import logged_in
from served import Served, served
from sim_engine import Behaviour


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", behaviour=lambda _: Behaviour(duration_s=10.0), keeps_code=True) as made:
        yield made


@pytest.fixture
def calls(here: Served) -> DeterminedCalls:
    return logged_in(here)

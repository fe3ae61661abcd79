"""What holds for every test: Hypothesis bounds no example in time, because a machine may be busy."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from examples import examples

if "/shims/" in (shutil.which("python3") or ""):
    # pyenv's `python3` is a shell script that costs more than the Python that it starts: runs start many.
    os.environ["PATH"] = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"

settings.register_profile("tarmac", deadline=None, max_examples=examples(100))
settings.load_profile("tarmac")


LONGEST_ID = 200
"""Characters of a value in the id of a test."""


def pytest_make_parametrize_id(val: object) -> str | None:
    """The beginning of a long text is its id: xdist sends all ids from and to each process."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!r}..."
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collecting makes no garbage, and what it makes stays: the collector need not look at it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

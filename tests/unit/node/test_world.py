"""A world of the wrong size is noticed: by what torch, JAX and Horovod say, where they are loaded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tarmac.node import sdk
from tarmac.node.attempt import protocol


def torch(size: int | None) -> dict[str, Any]:
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: size is not None, get_world_size=lambda: size
    )
    return {"torch": SimpleNamespace(), "torch.distributed": distributed}


def jax(size: int | None) -> dict[str, Any]:
    return {"jax._src.distributed": SimpleNamespace(global_state=SimpleNamespace(num_processes=size))}


def horovod(size: int | None) -> dict[str, Any]:
    found = SimpleNamespace(is_initialized=lambda: size is not None, size=lambda: size)
    return {"torch": SimpleNamespace(), "horovod.torch": found}


def launched(name: str) -> dict[str, str]:
    return {"TARMAC_LAUNCHER": name, "WORLD_SIZE": "4", "NNODES": "2"}


@pytest.mark.parametrize(
    ("environment", "modules", "found"),
    [
        (launched("accelerate"), torch(1), "a world of 1, and the run has 4 processes"),
        (launched("torch"), torch(2), "a world of 2, and the run has 4 processes"),
        (launched("torch"), torch(None), "a world of 1, and the run has 4 processes"),
        (launched("torch"), torch(4), None),
        (launched("jax"), jax(1), "a world of 1, and the run has 4 processes"),
        (launched("jax"), jax(None), None),
        (launched("horovod"), horovod(1), "a world of 1, and the run has 4 processes"),
        (launched("horovod"), horovod(4), None),
        (launched("horovod"), horovod(None), None),
        (launched("plain"), {}, None),
        ({"NNODES": "2"}, torch(1), "a world of 1, and the run has 2 nodes"),
        ({"NNODES": "2"}, torch(3), None),
        ({"NNODES": "1"}, torch(1), None),
        ({}, {}, None),
    ],
)
def test_what_is_said_of_a_world(
    environment: dict[str, str], modules: dict[str, Any], found: str | None
) -> None:
    message = sdk.world_mismatch(environment, modules)
    assert (found is None) == (message is None)
    assert found is None or found in str(message)


def test_the_first_process_writes_it_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "world"
    for name, module in torch(1).items():
        monkeypatch.setitem(sdk.sys.modules, name, module)
    environment = {protocol.WORLD_VARIABLE: str(path), **launched("torch")}
    sdk.check_world(environment)
    first = path.read_text()
    sdk.check_world({**environment, "WORLD_SIZE": "8"})
    assert "a world of 1, and the run has 4 processes" in first
    assert path.read_text() == first

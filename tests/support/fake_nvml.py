"""A stand-in of NVIDIA's library, compiled, for tests: GPUs that are lost, and that report errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest

from tarmac.node.host.gpus import Gpus

SOURCE = Path(__file__).with_name("fake_nvml.c")
BOUND_S = 120.0
NAME = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class FakeDriver:
    """The library lies in `directory`; what GPUs it has can be changed at any time."""

    directory: Path

    @property
    def library(self) -> str:
        return str(self.directory / NAME)

    def say(self, count: int, *, lost: int = -1, pending: int = -1, xid: int = -1, xid_gpu: int = -1) -> None:
        """There are so many GPUs; those of these numbers are lost, or have memory that needs a reset."""
        draft = self.directory / f"state.{os.urandom(4).hex()}"
        draft.write_text(f"{count} {lost} {pending} {xid} {xid_gpu}\n")
        draft.rename(self.directory / "state")


def install(directory: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Compile it, and have it found by what is started from now on; skips without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the stand-in of NVML needs a C compiler")
    directory.mkdir()
    subprocess.run([compiler, "-shared", "-fPIC", "-o", directory / NAME, SOURCE], check=True)
    monkeypatch.setenv("FAKE_NVML", str(directory / "state"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(directory))
    driver = FakeDriver(directory)
    driver.say(0)
    return driver


def problems_of(gpus: Gpus, there: Callable[[list[str]], bool]) -> list[str]:
    """What is wrong with the GPUs, once that is so."""
    deadline = time.monotonic() + BOUND_S
    while not there(found := list(gpus.report()["gpu_problems"])):
        assert time.monotonic() < deadline, found
        Event().wait(0.01)
    return found

"""What a node says of its GPUs, against a stand-in of NVIDIA's library that is called as the real one is."""

from __future__ import annotations

from pathlib import Path

import pytest

import fake_nvml
from fake_nvml import FakeDriver, problems_of
from tarmac.node.host.gpus import Gpus, Times
from tarmac.node.kernel.nvml import Nvml

H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver whose GPUs can be changed."""
    return fake_nvml.install(tmp_path / "driver", monkeypatch)


def watched(driver: FakeDriver, *, xid_s: float = 3600.0) -> Gpus:
    made = Gpus(lambda: Nvml(driver.library), Times(look_s=0.05, again_s=0.05, xid_s=xid_s))
    made.start()
    return made


def test_gpus_are_listed_with_their_use(driver: FakeDriver) -> None:
    driver.say(2)
    made = watched(driver)
    assert made.products() == [H100, H100]
    first, second = made.report()["gpus"]
    assert first == {"busy_percent": 40, "used_bytes": 1 << 30, "total_bytes": 80 << 30}
    assert (second["busy_percent"], second["used_bytes"]) == (41, 2 << 30)
    assert made.report()["gpu_problems"] == []


def test_a_lost_gpu_is_named_and_still_counts_and_is_well_again_once_it_answers(driver: FakeDriver) -> None:
    driver.say(2)
    made = watched(driver)
    made.products()
    driver.say(2, lost=1)
    assert problems_of(made, bool) == ["GPU 1: it is lost"]
    assert made.products() == [H100, H100]
    assert made.report()["gpus"][1] is None
    driver.say(2)
    problems_of(made, lambda problems: not problems)


def test_a_gpu_that_the_driver_no_longer_has_is_missed(driver: FakeDriver) -> None:
    driver.say(2)
    made = watched(driver)
    made.products()
    driver.say(1, lost=1)
    assert problems_of(made, bool) == ["GPU 1: it is lost"]


def test_memory_that_waits_for_a_reset_is_said(driver: FakeDriver) -> None:
    driver.say(1, pending=0)
    made = watched(driver)
    assert problems_of(made, bool) == ["GPU 0: rows of its memory wait to be remapped: reset it"]


def test_errors_of_the_hardware_are_told_from_those_of_programs(driver: FakeDriver) -> None:
    driver.say(2)
    made = watched(driver)
    made.products()
    driver.say(2, xid=13, xid_gpu=0)  # a program's
    driver.say(2, xid=79, xid_gpu=1)
    assert problems_of(made, bool) == ["GPU 1: it has fallen off the bus (XID 79)"]


def test_an_error_of_the_hardware_counts_for_a_while(driver: FakeDriver) -> None:
    driver.say(1, xid=48, xid_gpu=0)
    made = watched(driver, xid_s=0.5)
    assert "XID 48" in problems_of(made, bool)[0]
    problems_of(made, lambda problems: not problems)


def test_a_driver_that_fails_is_said_of_gpus_that_were_there(driver: FakeDriver) -> None:
    driver.say(1)
    made = watched(driver)
    made.products()
    driver.say(1, lost=0)
    problems_of(made, bool)
    driver.say(-1)
    problems_of(made, lambda problems: problems == ["the driver of the GPUs fails (NVML error 9)"])


def test_a_machine_without_a_driver_has_no_gpus() -> None:
    made = Gpus(lambda: Nvml("libno-such-library.so"), Times(late_s=0.0))
    made.start()  # there is nothing to wait for, however long ago that was
    assert (made.products(), made.report()) == ([], {"gpus": [], "gpu_problems": []})


def test_a_driver_that_hangs_holds_nobody_up() -> None:
    made = Gpus(times=Times(first_s=0.0, late_s=0.0))  # it was not started: as one whose first look hangs
    assert made.products() == []
    assert "has not answered" in made.report()["gpu_problems"][0]

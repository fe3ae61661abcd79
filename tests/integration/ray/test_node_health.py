"""A node that is not well, over agents of this machine: down with its reason, and up once it is well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_nvml
from engine_harness import Work, ended, submit
from fake_nvml import FakeDriver
from ray_harness import RayHarness
from tarmac.model.progress import Outcome

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver with two GPUs that agents find."""
    made = fake_nvml.install(tmp_path / "driver", monkeypatch)
    made.say(2)
    return made


@pytest.fixture
def ray(tmp_path: Path, driver: FakeDriver) -> Iterator[RayHarness]:
    """An engine over two nodes on a machine with these GPUs."""
    made = RayHarness(tmp_path / "home")
    yield made
    made.close()


def test_a_node_is_offered_with_its_gpus_and_not_while_one_is_lost(
    ray: RayHarness, driver: FakeDriver
) -> None:
    first = ray.engine.nodes()[0]
    assert (first.capacity.slots, first.capacity.slot_type) == (2, "h100")
    driver.say(2, lost=1)
    ray.wait(lambda: [node.reason for node in ray.engine.nodes()] == ["GPU 1: it is lost"] * 2)
    assert {node.state.value for node in ray.engine.nodes()} == {"down"}
    assert ray.engine.nodes()[0].capacity.slots == 2, "its slots are still those of runs that are there"
    driver.say(2)
    ray.wait(lambda: [node.state.value for node in ray.engine.nodes()] == ["up"] * 2)
    attempt = submit(ray, Work(), run_id="well", on=(1,))
    assert ray.settle(attempt, ended).outcome is Outcome.COMPLETED

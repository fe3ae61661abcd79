"""Which images a machine without a network cannot have, and what is done with runs that name them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.model.containers import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import Command, Environment, Process, Role, RunSpec
from tarmac.node.container.images import Image, Images
from tarmac.node.container.reference import parse
from tarmac.server.submitting.containers import use_containers
from tarmac.server.submitting.reachable_images import ReachableImages

AUTO = ContainerSettings()
REQUIRED = ContainerSettings(default=ContainerRules(use=ContainerUse.REQUIRED))


def machine(directory: Path, *, network: bool) -> ReachableImages:
    return ReachableImages(directory, finds=lambda name: network)


@pytest.mark.parametrize("image", ["bash", "mosaicml/pytorch:latest", "docker.io/library/bash"])
def test_without_a_network_an_image_of_docker_hub_is_out_of_reach(tmp_path: Path, image: str) -> None:
    assert machine(tmp_path, network=False).out_of_reach(image)
    assert not machine(tmp_path, network=True).out_of_reach(image)


@pytest.mark.parametrize("image", ["registry.example.org/team/train", "localhost:5000/bash", "/images/a.tar"])
def test_an_image_from_elsewhere_is_asked_for_there(tmp_path: Path, image: str) -> None:
    """The name of its registry may be wrong, and then the run has to fail."""
    assert not machine(tmp_path, network=False).out_of_reach(image)


def test_an_image_that_was_pulled_before_is_used(tmp_path: Path) -> None:
    images = Images(str(tmp_path))
    images.prepare()
    images.add(str(parse("bash")), Image("bash", "sha256:" + "0" * 64, (), {}, 0))
    assert not machine(tmp_path, network=False).out_of_reach("bash")


@pytest.mark.parametrize("word", ["none", "None", "null"])
def test_a_word_for_no_image_is_refused_at_submission(word: str) -> None:
    """Docker Hub would be asked for an image of that name."""
    process = Process(command=Command(argv=("true",)))
    roles = (Role(name="main", processes=(process,)),)
    spec = RunSpec(name="a", roles=roles, environment=Environment(image=word))
    with pytest.raises(InvalidInput, match="is none"):
        use_containers(spec, AUTO, user="ada")
    without = replace(spec, environment=replace(spec.environment, without_container=True))
    assert use_containers(without, AUTO, user="ada") == (without, ())


def test_a_run_whose_image_is_out_of_reach_starts_without_it_and_says_so() -> None:
    process = Process(command=Command(argv=("true",)))
    spec = RunSpec(
        name="a", roles=(Role(name="main", processes=(process,)),), environment=Environment(image="bash")
    )
    changed, warnings = use_containers(spec, AUTO, user="ada", out_of_reach=lambda image: True)
    assert changed.environment.without_container
    assert warnings == ("the image bash is not used: it is not here, and this machine has no network",)
    assert use_containers(spec, AUTO, user="ada", out_of_reach=lambda image: False) == (spec, ())
    assert use_containers(spec, REQUIRED, user="ada", out_of_reach=lambda image: True) == (spec, ())

"""Which images a machine without a network cannot have, and what is done with runs that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from images import archive, build
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds.engines import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.spec import Command, Environment, Process, Role, RunSpec, Target
from tarmac.node.container.images import Image, Images
from tarmac.node.container.making import Trial
from tarmac.node.container.reference import parse
from tarmac.server.local_images import LocalImages
from tarmac.server.submitting.containers import use_containers

AUTO = ContainerSettings()
WORKS = Trial(works=True, text="made as root")
REQUIRED = ContainerSettings(default=ContainerRules(use=ContainerUse.REQUIRED))


def machine(directory: Path, *, network: bool, trial: Trial = WORKS) -> LocalImages:
    return LocalImages(directory, finds=lambda name: network, try_container=lambda: trial, replaceable=True)


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


def test_a_run_whose_image_is_out_of_reach_starts_without_it_and_says_so(tmp_path: Path) -> None:
    process = Process(command=Command(argv=("true",)))
    spec = RunSpec(
        name="a", roles=(Role(name="main", processes=(process,)),), environment=Environment(image="bash")
    )
    away, here = machine(tmp_path, network=False), machine(tmp_path, network=True)
    changed, warnings = use_containers(spec, AUTO, user="ada", images=away)
    assert changed.environment.without_container
    assert warnings == ("the image bash is not used: it is not here, and this machine has no network",)
    assert use_containers(spec, AUTO, user="ada", images=here) == (spec, ())
    assert use_containers(spec, REQUIRED, user="ada", images=away) == (spec, ())
    mirrored = ContainerSettings(default=ContainerRules(mirrors={"docker.io": "localhost:5000"}))
    assert use_containers(spec, mirrored, user="ada", images=away) == (spec, ())


def test_an_image_that_cannot_be_used_on_this_machine_is_refused_at_submission(tmp_path: Path) -> None:
    """D11: one that is not there, one for another architecture, a machine that makes no containers."""
    here = machine(tmp_path, network=True)
    foreign = build(archive([("a", b"1")]), architecture="mips").write_archive(tmp_path / "foreign.tar")
    good = build(archive([("a", b"1")])).write_archive(tmp_path / "good.tar")
    (tmp_path / "text.tar").write_text("no archive")
    assert here.problem(str(good)) is None
    assert here.problem("team/box:3") is None
    for image, text in (
        ("/nowhere.tar", "there is no image at /nowhere.tar"),
        (str(foreign), "is for linux/mips"),
        (str(tmp_path / "text.tar"), "is no archive of an image"),
        ("Wrong Name", "is no name of an image"),
    ):
        problem = here.problem(image)
        assert problem is not None
        assert text in problem.message
    bare = machine(tmp_path, network=True, trial=Trial(works=False, text="podman: podman is not installed"))
    spec = RunSpec(name="a", roles=(), environment=Environment(image=str(good)))
    for target, alone in ((Target(cluster="local"), False), (Target(), True)):
        with pytest.raises(InvalidInput, match="no container can be made here: podman") as refused:
            use_containers(replace(spec, target=target), AUTO, user="ada", images=bare, alone=alone)
        assert "--no-container" in str(refused.value.hint)
    elsewhere = (replace(spec, target=Target(cluster="site")), spec)
    assert all(use_containers(each, AUTO, user="ada", images=bare)[0] == each for each in elsewhere)
    none = ContainerSettings(default=ContainerRules(use=ContainerUse.NONE))
    assert use_containers(spec, none, user="ada", images=bare, alone=True)[0].environment.without_container


def test_whether_containers_can_be_made_is_tried_once_where_they_can(tmp_path: Path) -> None:
    tried: list[int] = []

    def trial() -> Trial:
        tried.append(1)
        return WORKS

    here = LocalImages(tmp_path, try_container=trial, replaceable=True)
    assert [here.problem("box") for _ in range(3)] == [None] * 3
    assert len(tried) == 1

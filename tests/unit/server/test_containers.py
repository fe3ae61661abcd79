"""How a run is started, by the settings of the clusters that it may go to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds.engines import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.spec import Bind, Environment, RunSpec, Target
from tarmac.node.container.failures import ImageProblem
from tarmac.server.settings import read_settings
from tarmac.server.submitting.containers import ContainerFacts, decide, use_containers

REQUIRED = ContainerRules(use=ContainerUse.REQUIRED, without=("ada",))
NONE = ContainerRules(use=ContainerUse.NONE)
AUTO = ContainerRules()


def facts(rules: Mapping[str, ContainerRules], **changes: object) -> ContainerFacts:
    plain = ContainerFacts(user="bea", image="box", declined=False, sources=(), rules=rules)
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_an_image_is_used_unless_no_cluster_uses_any() -> None:
    assert decide(facts({"": AUTO})) is None
    assert decide(facts({"": AUTO, "site": NONE})) is None
    elsewhere = "the image box is not used: this server starts commands on the nodes themselves"
    assert decide(facts({"": NONE})) == elsewhere
    away = "the image box is not used: it is not here, and this machine has no network"
    assert decide(facts({"": AUTO}, out_of_reach=True)) == away
    assert decide(facts({"": AUTO}, image=None)) is None


@pytest.mark.parametrize("changes", [{"image": None}, {"declined": True}])
def test_who_may_start_without_an_image_is_said_for_each_cluster(changes: Mapping[str, object]) -> None:
    """D11: a cluster that requires images lets some users do without."""
    with pytest.raises(InvalidInput, match="cluster site starts runs in images alone"):
        decide(facts({"": AUTO, "site": REQUIRED}, **changes))
    assert decide(facts({"": AUTO, "site": REQUIRED}, user="ada", **changes)) is None


def test_what_a_container_shows_lies_where_the_cluster_allows() -> None:
    rules = {"site": ContainerRules(shows=("/data", "/scratch/"))}
    assert decide(facts(rules, sources=("/data", "/scratch/x/y"))) is None
    for source in ("/", "/database", "/data/../etc", "/etc/shadow"):
        with pytest.raises(InvalidInput, match="may not be shown in a container on cluster site"):
            decide(facts(rules, sources=(source,)))


def test_a_run_is_held_to_the_cluster_that_it_names() -> None:
    settings = ContainerSettings(clusters={"site": replace(REQUIRED, shows=("/data",))})
    bound = RunSpec(
        name="a",
        roles=(),
        environment=Environment(image="box"),
        binds=(Bind(source="/etc", target="/mnt/etc"),),
    )
    with pytest.raises(InvalidInput, match="/etc may not be shown"):
        use_containers(bound, settings, user="bea")
    kept, warnings = use_containers(replace(bound, target=Target(cluster="local")), settings, user="bea")
    assert (kept.environment.without_container, warnings) == (False, ())

    class OutOfReach:
        def out_of_reach(self, image: str) -> bool:
            return image == "box"

        def problem(self, image: str) -> ImageProblem | None:
            raise AssertionError(f"{image} is not used")

    here, warnings = use_containers(
        replace(bound, target=Target(cluster="local")), settings, user="bea", images=OutOfReach()
    )
    assert (here.environment.without_container, len(warnings)) == (True, 1)


def test_the_one_cluster_there_is_need_not_be_named() -> None:
    """Its own rules hold, not those of clusters that are not there."""
    settings = ContainerSettings(default=REQUIRED, clusters={"local": NONE, "site": REQUIRED})
    boxed = RunSpec(name="a", roles=(), environment=Environment(image="box"))
    kept, warnings = use_containers(boxed, settings, user="bea", alone=True)
    assert (kept.environment.without_container, len(warnings)) == (True, 1)
    bare = replace(boxed, environment=Environment())
    assert use_containers(bare, settings, user="bea", alone=True) == (bare, ())
    with pytest.raises(InvalidInput, match="cluster site starts runs in images alone"):
        use_containers(bare, replace(settings, default=AUTO), user="bea")


def test_settings_of_a_cluster_stand_for_what_they_name(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        "[containers]\nuse = 'required'\nshows = ['/data']\n"
        "[containers.clusters.site]\ndriver = 'apptainer'\nwithout = ['ada']\n"
        "mirrors = { 'index.docker.io' = 'mirror.example.org:5000/hub' }\n"
    )
    found = read_settings(file).containers
    assert found.of("local") == ContainerRules(use=ContainerUse.REQUIRED, shows=("/data",))
    assert found.of("site") == replace(
        found.default,
        driver="apptainer",
        without=("ada",),
        mirrors={"docker.io": "mirror.example.org:5000/hub"},
    )
    file.write_text(
        "[containers]\ndriver = 'podmen'\nshows = ['data']\nmirrors = { 'docker.io' = 'https://x' }\n"
        "[containers.clusters.site]\nusse = 'none'\n"
    )
    with pytest.raises(InvalidInput) as refused:
        read_settings(file)
    messages = [problem.message for problem in refused.value.problems]
    assert messages == [
        "containers.shows: an absolute path without '..' is expected, not 'data'",
        "containers.driver: 'podmen' is none of auto, own, podman, apptainer",
        "containers.mirrors: 'docker.io' = 'https://x' is no mirror of a registry",
        "containers.clusters.site.usse is no setting",
    ]

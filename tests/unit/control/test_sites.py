"""A file that names a site by its URL goes to the cluster that is this site."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.errors import Refused
from tarmac.model.run import Run
from tarmac.model.site import Firecrest, SiteRequest, unicore_address
from tarmac.model.spec import Rehearsal, Target

URL = "https://zam2125.zam.kfa-juelich.de:9112/JUWELS/rest/core"
REST = "--set partition=batch --set directory=DIRECTORY"
JUWELS = SiteRequest(queue="batch", unicore_url=URL)
DAINT = SiteRequest(
    queue="batch",
    firecrest=Firecrest(
        api_url="https://api.cscs.ch/v2", token_url="https://auth.cscs.ch/t", machine="daint"
    ),
)


def cluster(name: str, engine: str, **settings: str) -> Cluster:
    return Cluster(name=name, engine=engine, settings={"partition": "batch", **settings})


@pytest.fixture
def plane() -> ControlPlane:
    """A server that knows the engines of two kinds of sites, with batch systems at `one`, `two`, `three`."""
    made = Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=600.0),
        cluster=nodes(1, 4),
        described={name: nodes(2, 8, cluster=name) for name in ("one", "two", "three")},
    )
    made.kinds.update(dict.fromkeys(("unicore", "firecrest"), made.kinds["sim-batch"]))
    return made.start().plane


def submit(plane: ControlPlane, site: SiteRequest, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(slots=1, site=site, **wanted), actor=ADA)])[0].run


def test_a_run_goes_to_the_cluster_with_the_url_of_its_site(plane: ControlPlane) -> None:
    """K1, K10."""
    for each in (
        cluster("one", "unicore", url=URL.replace("JUWELS", "JURECA")),
        cluster("two", "unicore", url=URL.replace("zam2125", "ZAM2125") + "/"),
        cluster("three", "firecrest", url="https://api.cscs.ch/v2", system="daint"),
    ):
        plane.clusters.add(ADA, each)
    assert submit(plane, JUWELS).spec.target.cluster == "two"
    assert submit(plane, DAINT).spec.target.cluster == "three"
    shown = plane.dry_run(Submission(spec=spec(slots=1, site=JUWELS), actor=ADA))
    assert shown.run.spec.target.cluster == "two"


def test_another_machine_behind_the_same_url_is_another_site(plane: ControlPlane) -> None:
    plane.clusters.add(ADA, cluster("one", "firecrest", url="https://api.cscs.ch/v2", system="eiger"))
    with pytest.raises(Refused, match="goes to the site daint at https:"):
        submit(plane, DAINT)


def test_without_its_cluster_a_run_is_refused_with_the_command_that_adds_it(plane: ControlPlane) -> None:
    plane.clusters.add(ADA, cluster("one", "sim-batch", url=URL))
    with pytest.raises(Refused, match="which is none of the clusters here") as refused:
        submit(plane, JUWELS)
    assert f"tarmac clusters add juwels --engine unicore --url {URL} {REST} adds it" in str(
        refused.value.hint
    )
    with pytest.raises(Refused) as refused:
        submit(plane, DAINT)
    options = "--url https://api.cscs.ch/v2 --token-url https://auth.cscs.ch/t --system daint"
    assert f"tarmac clusters add daint --engine firecrest {options} {REST} adds it" in str(refused.value.hint)


def test_of_several_clusters_the_user_names_one(plane: ControlPlane) -> None:
    for name in ("one", "two"):
        plane.clusters.add(ADA, cluster(name, "unicore", url=URL))
    with pytest.raises(Refused, match="several clusters are that site") as refused:
        submit(plane, JUWELS)
    assert refused.value.hint == "--cluster chooses one of one, two"
    for name in ("one", "two"):
        assert submit(plane, JUWELS, target=Target(cluster=name)).spec.target.cluster == name


def test_a_named_cluster_and_a_rehearsal_win(plane: ControlPlane) -> None:
    plane.clusters.add(ADA, cluster("one", "unicore", url=URL))
    plane.clusters.add(ADA, cluster("two", "sim-batch"))
    assert submit(plane, JUWELS, target=Target(cluster="two")).spec.target.cluster == "two"
    rehearsed = submit(plane, JUWELS, rehearsal=Rehearsal(nodes=1, slots_per_node=1))
    assert rehearsed.spec.target.cluster == f"rehearsal-{rehearsed.id}"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (URL, "juwels"),
        ("https://unicore.example.org:8080/DEFAULT-SITE/rest/core/", "default-site"),
        ("https://unicore.example.org/rest/core", "unicore-example-org"),
        ("nonsense", "site"),
    ],
)
def test_the_name_that_is_suggested_for_a_cluster(url: str, name: str) -> None:
    assert unicore_address(url).name == name
    assert unicore_address(url).is_of("unicore", {"url": url})
    assert unicore_address(url).is_of("unicore", {"url": url.rstrip("/").removesuffix("/rest/core")})
    assert not unicore_address(url).is_of("slurm", {"url": url})


def test_a_request_without_a_site_is_no_cluster() -> None:
    assert replace(JUWELS, unicore_url=None).address is None

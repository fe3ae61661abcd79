"""What sites are sent for the configurations of golden/dialects/mantik: scripts and UNICORE descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.dialects.dialect import Extras
from tarmac.launch.batch_script import batch_script
from tarmac.launch.unicore_job import site_text, unicore_description
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read

HERE = Path(__file__).parent / "sites"
GOOD = Path(__file__).parents[1] / "dialects" / "mantik" / "good"
CASES = (
    *("document-example.yaml", "document-example-json.json", "firecrest.yaml", "srun-rule.yaml"),
    *("options-list.yaml", "options-with-a-variable.yaml", "python-in-the-project.yaml", "modules.yaml"),
    *(
        "variables-of-every-kind.yaml",
        "commands.yaml",
        "commands-of-all-kinds.yaml",
        "memory-in-mebibytes.yaml",
    ),
    *("everything.yaml", "total-alone.yaml", "image-beside-the-project.yaml"),
)


def spec_of(name: str) -> RunSpec:
    """The spec of a configuration and the project beside it."""
    project = (GOOD / "MLproject").read_text(encoding="utf-8")
    return read(
        (GOOD / name).read_text(encoding="utf-8"),
        filename=name,
        directory="/home/ada/digits",
        extras=Extras(files=(("MLproject", project),)),
    ).spec


@pytest.mark.parametrize("name", CASES)
def test_what_a_site_is_sent(name: str) -> None:
    """K2 to K8: the steps in their order, the resources in the words of the site's system."""
    found = site_text(spec_of(name))
    assert found is not None
    assert_golden(HERE / f"{Path(name).stem}.txt", found)


def test_every_resource_in_a_batch_script() -> None:
    """K6, K7: what UNICORE is asked for above, asked of Slurm; in a directory of the site, for an account."""
    found = batch_script(
        spec_of("everything.yaml"), name="digits-r1", directory="/scratch/ada/r 1", account="a1"
    )
    assert_golden(HERE / "everything-for-slurm.txt", found)


def test_a_site_may_have_its_own_name_for_a_resource() -> None:
    """K7."""
    spec = spec_of("everything.yaml")
    assert unicore_description(spec, name="r1")["Resources"]["GPUsPerNode"] == 4
    assert unicore_description(spec, name="r1", slots_key="GPUS")["Resources"]["GPUS"] == 4


def test_a_description_is_json_and_names_the_project_that_pays() -> None:
    """K1."""
    described = unicore_description(spec_of("document-example.yaml"), name="r1", project="budget")
    assert described["Project"] == "budget"
    assert json.loads(json.dumps(described)) == described


def test_two_lines_cannot_be_asked_of_a_batch_system() -> None:
    spec = spec_of("firecrest.yaml")
    assert spec.site is not None
    hostile = replace(spec, site=replace(spec.site, queue="batch\n#SBATCH --uid=root"))
    with pytest.raises(InvalidInput, match="not one line"):
        batch_script(hostile, name="r1")


def test_only_a_run_for_a_site_has_such_a_text() -> None:
    assert site_text(read("command: echo", filename="run.yaml", directory="/").spec) is None

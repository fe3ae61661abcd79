"""What `tarmac clusters check` tries of a Slurm, and says of it."""

from __future__ import annotations

import pytest

from slurm_harness import SlurmHarness, StandInHarness
from tarmac.model.cluster import Cluster

pytestmark = pytest.mark.xdist_group("slurm")

SITE = Cluster(name="site", engine="slurm")


def test_the_check_tries_command_by_command(slurm_harness: SlurmHarness) -> None:
    findings = slurm_harness.engine.examine(SITE)
    found = {finding.what: finding for finding in findings}
    assert {"sbatch", "squeue", "sacct", "scancel", "scontrol", "partition", "directory", "python"} <= set(
        found
    )
    assert [finding for finding in findings if not finding.ok] == []
    assert any(f"n1 sees {slurm_harness.home}, and has Python 3" in finding.text for finding in findings)


def test_the_check_says_what_is_missing(standin: StandInHarness) -> None:
    standin.knob("down", True)
    found = {finding.what: finding for finding in standin.engine.examine(SITE)}
    standin.knob("down", False)
    assert {what for what, finding in found.items() if not finding.ok} == {"controller", "partition"}
    assert "Unable to contact" in found["controller"].text

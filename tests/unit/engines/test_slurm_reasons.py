"""Why jobs wait: every reason of Slurm in plain words, and whether somebody has to do something."""

from __future__ import annotations

import pytest

from tarmac.engines.slurm.states import REASONS, explained, reason_of
from tarmac.model.progress import NativeStatus


@pytest.mark.parametrize(
    "word",
    [
        *("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS"),
        *("QOSNotAllowed", "AccountNotAllowed", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin"),
        *("JobHoldMaxRequeue", "ReservationDeleted", "launch failed requeued held"),
        *("launch_failed_requeued_held", "(JobHeldUser)", "MaxMemPerLimit"),
        *("QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuPerJobLimit"),
        *("AssocMaxNodePerJobLimit", "QOSMaxGRESPerJob", "QOSMinGRES", "QOSMaxCpuPerNode"),
        *("AssocGrpCPUMinutesLimit", "QOSGrpGRESMinutes", "AssocGrpWallLimit"),
    ],
)
def test_reasons_that_do_not_clear_by_themselves(word: str) -> None:
    found = reason_of(word)
    assert found is not None
    assert found.stuck
    assert found.advice


@pytest.mark.parametrize(
    "word",
    [
        *("Priority", "Resources", "Dependency", "BeginTime", "Licenses", "Reservation", "PartitionDown"),
        *("ReqNodeNotAvail, Reserved for maintenance", "ReqNodeNotAvail, UnavailableNodes:n[1-4]"),
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
        *(
            "QOSMaxJobsPerUserLimit",
            "AssocGrpGRES",
            "AssocGrpBilling",
            "QOSGrpNodeLimit",
            "AssocMaxJobsLimit",
        ),
        *("QOSMaxGRESPerUser", "QOSMaxCpuPerUserLimit", "AssocGrpCPURunMinutesLimit", "QOSResourceLimit"),
    ],
)
def test_reasons_that_pass(word: str) -> None:
    found = reason_of(word)
    assert found is not None
    assert not found.stuck


def test_what_is_not_known_is_shown_as_it_is() -> None:
    for word in ("", "SomethingOfAVersionToCome"):
        status = NativeStatus(id="7", state="PENDING", reason=word)
        assert explained(status) is status


def test_the_advice_names_the_job() -> None:
    found = explained(NativeStatus(id="7", reason="JobHeldUser"))
    assert (found.stuck, found.advice) == (True, "scontrol release 7 lets it go.")
    assert "RUN" not in "".join(reason.advice for reason in REASONS.values())

"""Which limits of accounts and QoS a waiting job exceeds by itself: by what a Slurm 22.05 printed."""

from __future__ import annotations

import pytest

from tarmac.engines.slurm.account_limits import never, parse_associations, parse_waiting, qos_records

WAITING = "\n".join(
    f"{job:16}{account:64}{'normal':64}{'gpu':128}{1000:<16}{limit:24}{amounts}"
    for job, account, limit, amounts in (
        ("6", "proj", "1-00:00:00", "cpu=4,mem=1.50G,node=1,billing=4,gres/gpu=2"),
        ("7", "proj", "UNLIMITED", "cpu=1,mem=64M,node=1,billing=1"),
    )
)
ASSOCIATIONS = """Current Association Manager state

Association Records

ClusterName=bench Account=proj UserName= Partition= Priority=0 ID=3
    ParentAccount=root(1) Lft=2 DefAssoc=No
    GrpTRES=cpu=8(4),mem=1024(256),energy=N(0),node=N(0),billing=N(0),gres/gpu=1(0)
    GrpTRESRunMins=cpu=5000(0),mem=N(0),gres/gpu=N(0)
ClusterName=bench Account=proj UserName=ada(1000) Partition= Priority=0 ID=4
    ParentAccount= Lft=3 DefAssoc=No
    GrpTRES=cpu=N(0),mem=N(0),node=0(0)
"""
QOS = """QOS Records

QOS=normal(1)
    GrpTRES=cpu=2(0),mem=N(0),gres/gpu=N(0)
    MaxWallPJ=
    Account Limits
      other
        MaxJobsPA=N(0)
        MaxTRESPA=cpu=1(0),gres/gpu=N(0)
      proj
        MaxJobsPA=N(0) MaxSubmitJobsPA=N(1)
        MaxTRESPA=cpu=3(0),gres/gpu=N(0)
    User Limits
      1000
        MaxJobsPU=N(0)
        MaxTRESPU=cpu=N(0),gres/gpu=1(0)
QOS=wide(2)
    GrpTRES=cpu=1(0)
"""


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (
            "AssocGrpMemLimit",
            "account proj may have at most 1024 MiB of memory at once, and this job asks for 1536",
        ),
        ("AssocGrpGRES", "account proj may have at most 1 GPUs at once, and this job asks for 2"),
        (
            "AssocGrpNodeLimit",
            "your user in account proj may have at most 0 nodes at once, and this job asks for 1",
        ),
        (
            "AssocGrpCPURunMinutesLimit",
            "account proj may have at most 5000 minutes of processors at once, and this job asks for 5760",
        ),
        ("QOSGrpCpuLimit", "QoS normal may have at most 2 processors at once, and this job asks for 4"),
        (
            "QOSMaxGRESPerUser",
            "a user under QoS normal may have at most 1 GPUs at once, and this job asks for 2",
        ),
        (
            "MaxCpuPerAccount",
            "an account under QoS normal may have at most 3 processors at once, and this job asks for 4",
        ),
        *(
            (word, None)
            for word in ("AssocGrpCpuLimit", "QOSMaxCpuPerUserLimit", "AssocMaxJobsLimit", "Priority")
        ),
    ],
)
def test_a_job_that_is_larger_than_a_limit_never_starts(word: str, text: str | None) -> None:
    job = parse_waiting(WAITING, {"gpu": "N/A"})["6"]
    reason = never(word, job, list(parse_associations(ASSOCIATIONS)), qos_records(QOS, job.qos))
    assert (reason and reason.text) == text
    assert reason is None or (reason.stuck and reason.advice)


def test_a_job_without_an_end_exceeds_every_limit_of_time() -> None:
    job = parse_waiting(WAITING, {})["7"]
    reason = never("AssocGrpCPURunMinutesLimit", job, list(parse_associations(ASSOCIATIONS)), ())
    assert reason is not None
    assert reason.text.endswith("and this job asks for time without an end")


def test_the_qos_of_a_partition_counts_too() -> None:
    assert parse_waiting(WAITING, {"gpu": "wide"})["6"].qos == ("normal", "wide")

"""What Slurm's commands answer in several versions, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.engines.hosts.host import local_host
from tarmac.engines.slurm.commands import Commands, job_id
from tarmac.engines.slurm.observing import expected_start_at
from tarmac.engines.slurm.partition import parse_limits, parse_nodes, parse_partitions, widest
from tarmac.engines.slurm.queue import Place, Snapshot, parse_accounting, parse_places, parse_queue
from tarmac.engines.slurm.settings import read_settings
from tarmac.engines.slurm.states import MEANINGS, Stage, meaning
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.progress import CauseCode, Outcome

AT = "2026-11-22T15:21:30"
LATER = "2026-11-22T15:22:30"
AT_S = 1_795_360_890.0  # in UTC
NEEDED = {"directory": "/shared/tarmac", "partition": "batch"}


# --- sbatch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("4242\n", "4242"),
        ("4242;bench\n", "4242"),
        ("Welcome to the site, 3 news\n\n4242;bench\nhave a nice day\n", "4242"),
        ("Submitted batch job 4242\n", None),
        ("", None),
    ],
)
def test_the_id_of_a_job_is_found_among_noise(said: str, number: str | None) -> None:
    assert job_id(said) == number


@pytest.mark.parametrize(
    "said",
    [
        "Batch job submission failed: Invalid account or account/partition combination specified",
        "Batch job submission failed: Invalid qos specification",
        "Batch job submission failed: Requested node configuration is not available",
        "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
    ],
)
def test_what_will_never_be_taken_is_told_from_what_may_be_later(said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        saying(tmp_path, said).submit("script")
    for passing in ("Socket timed out on send/recv operation", "Job violates accounting/QOS policy"):
        with pytest.raises(Unavailable):
            saying(tmp_path, passing).submit("script")


def saying(directory: Path, text: str) -> Commands:
    """Commands of which sbatch fails with these words."""
    program = directory / "sbatch"
    program.write_text(f'#!/bin/sh\necho "sbatch: error: {text}" >&2\nexit 1\n')
    program.chmod(0o755)
    return Commands(host=local_host(directory, variables={"PATH": f"{directory}:/usr/bin:/bin"}))


def test_a_command_that_hangs_is_given_up(tmp_path: Path) -> None:
    host = local_host(tmp_path)
    with pytest.raises(Unavailable, match="did not answer within"):
        Commands(host=host, query_s=0.05).query(["sleep", "60"])
    with pytest.raises(Unavailable, match="cannot be run here"):
        Commands(host=host).query(["/no/such/squeue"])


def test_queries_ask_for_times_in_utc_and_jobs_are_submitted_in_the_zone_of_the_host(tmp_path: Path) -> None:
    program = tmp_path / "sbatch"
    program.write_text('#!/bin/sh\n[ "$TZ" = UTC0 ] && echo utc || echo 7\n')
    program.chmod(0o755)
    commands = Commands(host=local_host(tmp_path, variables={"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert commands.query(["sbatch"]) == "utc\n"
    assert commands.submit("script") == "7"


# --- squeue and sacct ---------------------------------------------------------------------------------


def test_the_queue_is_read_through_noise_and_strangers() -> None:
    text = f"""Last login: Mon
7|PENDING|{AT}|{LATER}|Priority|tarmac-run1.1
8|RUNNING|{AT}|{LATER}|None|tarmac-run2.1
9|PENDING|N/A|N/A|ReqNodeNotAvail, Reserved for maintenance|tarmac-run3.2
10|PENDING|N/A|N/A|launch failed requeued held|tarmac-run4.1
11_[3-16%2]|PENDING|N/A|N/A|Priority|tarmac-array
12|RUNNING|{AT}|{LATER}|None|my|own|job
"""
    found = parse_queue(text)
    assert set(found) == {"run1.1", "run2.1", "run3.2", "run4.1"}
    (first,), (second,) = found["run1.1"], found["run2.1"]
    assert (first.id, first.state, first.reason, first.start_at) == ("7", "PENDING", "Priority", AT_S)
    assert (second.reason, second.start_at, second.end_at) == ("", AT_S, AT_S + 60)
    assert found["run3.2"][0].reason == "ReqNodeNotAvail, Reserved for maintenance"


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        (("PENDING", "PENDING"), "PENDING"),
        (("RUNNING", "PENDING"), "RUNNING"),
        (("COMPLETED", "COMPLETING"), "COMPLETING"),
        (("FAILED", "NODE_FAIL"), "NODE_FAIL"),
        (("CANCELLED by 7", "CANCELLED by 7"), "CANCELLED by 7"),
        (("COMPLETED", "CANCELLED by 7"), "CANCELLED by 7"),
        (("COMPLETED", "COMPLETED"), "COMPLETED"),
    ],
)
def test_the_components_of_a_job_are_one_job(states: tuple[str, str], whole: str) -> None:
    """A heterogeneous job, in the queue and in accounting: over when all of it is, by what says most."""
    lines = [f"7+{part}|{state}|{AT}|{LATER}" for part, state in enumerate(states)]
    queued = "".join(f"{line}|None|tarmac-run1.1\n" for line in lines)
    (job,) = parse_queue(queued)["run1.1"]
    (recorded,) = parse_accounting("".join(f"{line}|tarmac-run1.1\n" for line in lines))
    assert (job.id, job.state, job.start_at) == ("7", whole, AT_S)
    assert job == recorded


def test_a_job_waits_for_the_worst_reason_of_its_components() -> None:
    lines = ("7+0|PENDING|N/A|N/A|Resources", f"7+1|PENDING|{AT}|{LATER}|PartitionTimeLimit")
    (job,) = parse_queue("".join(f"{line}|tarmac-run1.1\n" for line in lines))["run1.1"]
    assert (job.reason, job.start_at) == ("PartitionTimeLimit", None)


def test_the_place_of_a_job_is_among_those_that_wait_in_its_partition() -> None:
    text = """maintenance on Monday
3|100|batch|tarmac-run1.1
4|100|batch|other|job
5|500|batch,gpu|first
6_[1-9%2]|300|batch|array
7+0|200|gpu|tarmac-run2.1
7+1|200|gpu|tarmac-run2.1
8|0|batch|held
9|0|batch|tarmac-held.1
10|50|batch,gpu|tarmac-run3.1
"""
    places = parse_places(text)
    assert places == {"3": Place(3, 5), "7": Place(2, 3), "10": Place(3, 3)}


def test_a_start_behind_jobs_without_a_time_limit_is_not_expected() -> None:
    (soon,) = parse_queue(f"7|PENDING|{AT}|N/A|Priority|tarmac-run1.1\n")["run1.1"]
    (never,) = parse_queue("8|PENDING|2027-11-22T15:21:30|N/A|Priority|tarmac-run1.2\n")["run1.2"]
    assert expected_start_at(soon, AT_S - 60) == AT_S
    assert expected_start_at(never, AT_S - 60) is None


def test_accounting_is_read_without_steps() -> None:
    text = f"""7|CANCELLED by 1000|{AT}|{LATER}|tarmac-run1.1
7.batch|CANCELLED|{AT}|{LATER}|batch
8|TIMEOUT|Unknown|Unknown|tarmac-run2.1
"""
    cancelled, late = parse_accounting(text)
    assert (cancelled.attempt_id, meaning(cancelled.state).outcome) == ("run1.1", Outcome.STOPPED)
    assert (late.start_at, meaning(late.state).code) == (None, CauseCode.WALL_TIME)


# --- states -------------------------------------------------------------------------------------------


def test_no_state_is_taken_for_completed() -> None:
    """Only the runners say so."""
    assert Outcome.COMPLETED not in {each.outcome for each in MEANINGS.values()}


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("COMPLETED", Outcome.LOST, CauseCode.PLATFORM_FAULT),
        ("TIMEOUT", Outcome.PREEMPTED, CauseCode.WALL_TIME),
        ("DEADLINE", Outcome.FAILED, CauseCode.TIME_LIMIT),
        ("OUT_OF_MEMORY", Outcome.FAILED, CauseCode.OUT_OF_MEMORY),
        ("NODE_FAIL", Outcome.LOST, CauseCode.NODE_LOST),
        ("BOOT_FAIL", Outcome.LOST, CauseCode.NODE_LOST),
        ("PREEMPTED", Outcome.PREEMPTED, CauseCode.PREEMPTION),
        ("CANCELLED+", Outcome.STOPPED, CauseCode.USER_REQUEST),
    ],
)
def test_ends_are_told_apart(state: str, outcome: Outcome, code: CauseCode) -> None:
    found = meaning(state)
    assert (found.stage, found.outcome, found.code) == (Stage.OVER, outcome, code)


def test_a_word_of_a_version_to_come_says_nothing() -> None:
    assert meaning("HIBERNATING").stage is Stage.UNKNOWN
    assert meaning("").stage is Stage.UNKNOWN


# --- scontrol -----------------------------------------------------------------------------------------

NODES = "\n".join(
    [
        "NodeName=g1 CPUTot=64 Gres=gpu:A100:4(S:0-1),tmp:1 NodeAddr=10.0.0.1 RealMemory=512000 "
        "State=IDLE Partitions=gpu,all",
        "NodeName=g2 CPUAlloc=0 CPUEfctv=62 CPUTot=64 Gres=gpu:a100:4,gpu:v100:2 NodeAddr=g2 "
        "RealMemory=512000 State=DOWN*+DRAIN Reason=a b=c Partitions=gpu,all",
        "NodeName=g3 CPUTot=32 Gres=gpu:2 NodeAddr=g3 RealMemory=1 State=IDLE Partitions=old",
        "NodeName=c1 CPUTot=16 Gres=(null) NodeAddr=c1 RealMemory=64000 State=MIXED Partitions=cpu,all",
    ]
)


def offered(partition: str, gpu_type: str | None = None) -> list[tuple[str, int, str | None]]:
    found = parse_nodes(NODES, cluster="site", partition=partition, gpu_type=gpu_type)
    return [(node.hostname, node.capacity.slots, node.capacity.slot_type) for node in found.nodes]


def test_slots_are_the_gpus_of_every_type_or_else_processors() -> None:
    assert offered("gpu") == [("g1", 4, "a100"), ("g2", 4, "a100"), ("g2", 2, "v100")]
    assert offered("gpu", "V100") == [("g2", 2, "v100")]
    assert offered("cpu") == [("c1", 16, "cpu")]
    assert offered("old") == [("g3", 2, "gpu")]
    assert offered("none") == []


def test_the_processors_that_jobs_may_use_count() -> None:
    found = parse_nodes(NODES, cluster="site", partition="gpu", gpu_type=None)
    assert [node.capacity.cpus for node in found.nodes] == [64.0, 62.0, 62.0]
    assert (found.cpus_per_slot(), found.cpus_per_slot("v100")) == (15, 31)


def test_types_are_asked_for_as_slurm_spells_them() -> None:
    """Runs call them without regard to case; two types of one machine are two nodes to choose from."""
    found = parse_nodes(NODES.splitlines()[0], cluster="site", partition="gpu")
    assert found.types == {"a100": "A100"}
    names = [node.name for node in parse_nodes(NODES, cluster="site", partition="gpu").nodes]
    assert names == ["g1.site", "g2-a100.site", "g2-v100.site"]


def test_nodes_without_a_memory_hold_what_is_asked_and_are_not_asked() -> None:
    """A site that leaves RealMemory out refuses every --mem."""
    (old,) = parse_nodes(NODES, cluster="site", partition="old").nodes
    assert old.capacity.memory_bytes == 2**50
    assert not parse_nodes(NODES, cluster="site", partition="old").counts_memory
    assert parse_nodes(NODES, cluster="site", partition="cpu").counts_memory


def test_what_a_partition_takes_of_a_job() -> None:
    text = (
        "PartitionName=a MaxTime=1-00:30:00 DefaultTime=01:00:00 MaxNodes=8 State=UP\n"
        "PartitionName=b MaxTime=UNLIMITED DefaultTime=NONE MaxNodes=UNLIMITED State=UP\n"
    )
    found = parse_partitions(text)
    first, second = parse_limits(found["a"]), parse_limits(found["b"])
    assert (first.longest_s, first.usual_s, first.most_nodes) == (88_200.0, 3600.0, 8)
    assert (second.longest_s, second.usual_s, second.most_nodes) == (None, None, None)
    assert widest([first, second]) == second
    assert widest([first, first]) == first


# --- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition": "batch"}, "needs the setting 'directory'"),
        ({"directory": "/shared"}, "needs the setting 'partition'"),
        (NEEDED | {"acount": "x"}, "no setting 'acount'"),
        (NEEDED | {"directory": "relative"}, "not allowed"),
        (NEEDED | {"directory": "/a/../b"}, r"without '\.\.'"),
        (NEEDED | {"directory": "/a b\n#SBATCH --nodes=9"}, "not allowed"),
        (NEEDED | {"account": "a\nb"}, "not allowed"),
        (NEEDED | {"python": "python3; rm"}, "not allowed"),
        (NEEDED | {"wall_time": "4"}, "'wall_time' is '4'"),
        (NEEDED | {"wall_time": "90s"}, "'wall_time' is '90s'"),
        (NEEDED | {"extra": {"nodes": "4"}}, "set by tarmac itself"),
        (NEEDED | {"extra": {"mem=4": "x"}}, "no directive"),
        (NEEDED | {"extra": {"mem": '4" --nodes="9'}}, "not allowed"),
        (NEEDED | {"extra": "mem"}, "no mapping"),
        (NEEDED | {"pools": {"a": "gpu"}}, "pool 'a' is no mapping"),
        (NEEDED | {"pools": {"a b": {}}}, "cannot be called so"),
        (NEEDED | {"pools": {"a": {"partiton": "x"}}}, r"pool 'a' has no setting 'partiton' \(did you mean"),
        (NEEDED | {"pools": {"a": {"qos": "x\ny"}}}, "not allowed"),
        ({"directory": "/shared", "pools": {"a": {}}}, "pool 'a' needs the setting 'partition'"),
    ],
)
def test_settings_that_are_wrong_are_refused_with_the_value(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_settings(settings)


def test_pools_say_what_they_do_not_share() -> None:
    found = read_settings(
        NEEDED
        | {"account": "proj", "extra": {"mem": "4G", "nice": 5}}
        | {
            "pools": {
                "train": {"partition": "gpu", "gpu_type": "h100", "qos": "long", "constraint": "ib&nvlink"},
                "debug": {"account": "other", "extra": {"mem": None}},
            }
        }
    )
    train, debug = found.pools
    assert train.terms == {"partition": "gpu", "account": "proj", "qos": "long", "constraint": "ib&nvlink"}
    assert (train.gpu_type, train.extra) == ("h100", {"mem": "4G", "nice": "5"})
    assert debug.terms == {"partition": "batch", "account": "other"}
    assert debug.extra == {"mem": None, "nice": "5"}
    assert found.pool("debug") is debug
    assert [pool.name for pool in read_settings(NEEDED).pools] == ["default"]


def test_the_job_of_a_later_turn_is_found_by_its_id_under_the_name_of_an_earlier_one() -> None:
    """Also where a job of its own name came to be, whose answer was lost."""
    lines = "7|RUNNING|N/A|N/A|None|tarmac-r1.1\n9|PENDING|N/A|N/A|None|tarmac-r1.2\n"
    snapshot = Snapshot(began_at=0.0, jobs=parse_queue(lines))
    found = [snapshot.job("r1.2", each) for each in ("7", "9", None, "8")]
    assert [each and each.id for each in found] == ["7", "9", "9", None]
    assert [job.id for job in snapshot.of("r1.2", "7")] == ["9", "7"]

"""A described cluster as a person uses it: three pools, two shards and two slot types on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from shell import Shell

LAB = """\
name: lab
nodes:
  - {count: 2, slots: 8, slot_type: h100, pool: train, shard: left, prefix: h}
  - {count: 2, slots: 8, slot_type: h100, pool: train, shard: right, prefix: r}
  - {hostnames: [ada, grace], slots: 4, slot_type: rtx3090, pool: try, shard: right}
  - {count: 1, slots: 2, pool: plain, prefix: p}
pools:
  train: {policy: fair_share, share_by: project}
  try: {packing: spread}
"""


@pytest.fixture(scope="module")
def lab(settled: Shell) -> Shell:
    """A user whose server stands for the cluster."""
    settled.write("lab.yaml", LAB)
    assert settled.tarmac("clusters", "add", "lab.yaml", code=0).stdout == (
        "there is lab (local, added): 7 nodes in 3 pools, 42 of 42 slots free\n"
    )
    return settled


def hold(lab: Shell, pool: str, *, slots: int) -> str:
    """A run that runs in a pool until the module ends or a test stops it."""
    lab.write("hold.yaml", f"cluster: lab\npool: {pool}\nslots: {slots}\ncommand: exec sleep 600\n")
    run = lab.tarmac("run", "-d", "hold.yaml", code=0).stdout.strip()
    lab.wait_until(run, "running")
    return run


def nodes_of(lab: Shell, run: str) -> list[str]:
    """The nodes of the newest attempt."""
    names: list[str] = lab.json("show", run)["attempts"][-1]["nodes"]
    return names


def ran_on(lab: Shell, *options: str, file: str = "command: hostname\nslots: 1\n") -> list[str]:
    """Run something to its end; where it ran."""
    lab.write("narrow.yaml", file)
    lab.tarmac("run", "narrow.yaml", "--cluster", "lab", *options, code=0)
    return nodes_of(lab, "@last")


@pytest.mark.parametrize(
    ("options", "file", "nodes", "where"),
    [
        (("--pool", "try"), "slots: 1", 1, {"ada", "grace"}),
        (("--shard", "right", "--pool", "train"), "slots: 16", 2, {"r1", "r2"}),
        (("--shard", "left"), "slots: 16", 2, {"h1", "h2"}),
        (("--hostname", "grace"), "slots: 4", 1, {"grace"}),
        ((), "slots: rtx3090:8", 2, {"ada", "grace"}),
        ((), "slots: h100:32", 4, {"h1", "h2", "r1", "r2"}),
        ((), "slots: rtx3090:1\nexclude_hostnames: ada", 1, {"grace"}),
        (("--shard", "right"), "slots: h100:8\nexclude_hostnames: [r1]", 1, {"r2"}),
    ],
)
def test_runs_are_narrowed_by_pool_shard_host_and_slot_type(
    lab: Shell, options: tuple[str, ...], file: str, nodes: int, where: set[str]
) -> None:
    """C4: cluster, pool, shard, host names, excluded host names and slot type."""
    found = ran_on(lab, *options, file=f"command: hostname\n{file}\n")
    assert len(found) == nodes
    assert {name.removesuffix(".lab") for name in found} <= where


def test_four_replicas_of_two_slots_share_one_node_of_eight(lab: Shell) -> None:
    """C2: replicas are bin-packed."""
    text = "cluster: lab\npool: train\nreplicas: 4\nresources: h100:2\n"
    lab.write("pack.yaml", text + "command: echo $TARMAC_REPLICA of $TARMAC_REPLICAS on $NNODES node\n")
    said = lab.tarmac("run", "pack.yaml", code=0).stdout
    assert sorted(line.split("| ")[1] for line in said.splitlines()) == [
        f"{replica} of 4 on 1 node" for replica in range(4)
    ]
    (attempt,) = lab.json("show", "@last")["attempts"]
    assert len({placement["node"] for placement in attempt["placements"]}) == 1
    assert sorted(slot for placement in attempt["placements"] for slot in placement["slots"]) == list(
        range(8)
    )


def test_a_role_that_asks_for_nothing_runs_beside_a_full_node(lab: Shell) -> None:
    """C3: it goes to one node and does not count as using it."""
    holder = hold(lab, "plain", slots=2)
    assert nodes_of(lab, holder) == ["p1.lab"]
    assert ran_on(lab, "--pool", "plain", file="command: 'true'\n") == ["p1.lab"]
    (node,) = lab.json("nodes", "--cluster", "lab", "--pool", "plain")["nodes"]
    assert (node["slots"], node["slots_used"]) == (2, 2)
    lab.tarmac("stop", "--wait", holder, code=0)


def test_a_busy_pool_fails_a_run_at_once_or_has_it_wait_as_it_asks(lab: Shell) -> None:
    """C10: with the reason of each node; a run that may wait starts when there is room."""
    holder = hold(lab, "try", slots=8)
    lab.write("try.yaml", "cluster: lab\npool: try\nslots: 4\ncommand: 'true'\n")
    failed = lab.tarmac("run", "try.yaml", "--fail-if-busy")
    assert failed.returncode != 0
    for host in ("ada.lab", "grace.lab"):
        assert host in failed.stderr
    assert "0 of 4 slots" in failed.stderr or "0 of its 4 slots" in failed.stderr
    shown = lab.json("show", "@last")["run"]
    assert (shown["outcome"], shown["cause"]["code"]) == ("failed", "busy")
    waiting = lab.tarmac("run", "-d", "try.yaml", code=0).stdout.strip()
    lab.wait_until(waiting, "queued")
    assert "ada.lab" in lab.tarmac("why", waiting, code=0).stdout
    lab.tarmac("stop", "--wait", holder, code=0)
    assert lab.json("wait", waiting)["runs"][0]["outcome"] == "completed"


@pytest.mark.parametrize(("behaviour", "peer"), [("stop", "signal"), ("continue", "exit_code")])
def test_a_failure_ends_the_others_or_not_as_the_run_asks(lab: Shell, behaviour: str, peer: str) -> None:
    """C10: failure behaviour, on two nodes of one pool.

    The first fails only when the second has begun: what never began has no end to tell of.
    """
    begun = lab.home.parent / f"begun-{behaviour}"
    script = (
        f"if [ $NODE_RANK = 0 ]; then while [ ! -e {begun} ]; do sleep 0.05; done; exit 3; fi; "
        f"touch {begun}; {'while true; do sleep 0.05; done' if behaviour == 'stop' else 'exit 0'}"
    )
    lab.write("fail.yaml", f"cluster: lab\nslots: h100:16\non_failure: {behaviour}\ncommand: '{script}'\n")
    lab.tarmac("run", "fail.yaml", code=3)
    (attempt,) = lab.json("show", "@last")["attempts"]
    ends = {worker["replica"]: worker for worker in attempt["workers"]}
    assert ends[0]["exit_code"] == 3
    assert ends[1][peer] is not None


def test_it_outlives_the_server_and_what_runs_is_not_taken_away(shell: Shell) -> None:
    """Nothing that runs is moved or lost when a cluster is replaced or a server goes."""
    shell.write("lab.yaml", LAB)
    shell.tarmac("clusters", "add", "lab.yaml", code=0)
    run = hold(shell, "train", slots=16)
    shell.tarmac("server", "stop", code=0)
    assert shell.json("clusters", "show", "lab")["slots_used"] == 16
    refused = shell.tarmac("clusters", "rm", "lab", code=2).stderr
    assert f"hold ({run}) holds h1.lab, which would be gone" in refused
    smaller = shell.write("lab.yaml", "name: lab\nnodes: [{count: 1, slots: 8, prefix: h, pool: train}]\n")
    assert "of another shape" in shell.tarmac("clusters", "add", smaller, code=2).stderr
    assert "holds h2.lab" in shell.tarmac("clusters", "add", "--replace", smaller, code=2).stderr
    larger = shell.write("lab.yaml", LAB.replace("{count: 2, slots: 8", "{count: 3, slots: 8", 1))
    assert shell.json("clusters", "add", "--replace", larger)["nodes"] == 8
    shown = shell.json("show", run)["run"]
    assert (shown["state"], shown["attempt"]) == ("running", 1)
    drained = shell.tarmac("nodes", "drain", "--cluster", "lab", "--shard", "left", code=0).stdout
    assert "h1.lab takes no new work; still there: hold" in drained
    assert "h3.lab takes no new work; it is empty" in drained
    shell.tarmac("stop", "--wait", run, code=0)
    assert shell.tarmac("clusters", "rm", "lab", code=0).stdout == "lab is gone\n"
    assert "did you mean" in shell.tarmac("clusters", "show", "locl", code=2).stderr


def test_the_rules_of_a_pool_are_changed_one_by_one(shell: Shell) -> None:
    """What a form of the page does, with every refusal named, and the exit code for bad input."""
    shell.tarmac("clusters", "add", shell.write("lab.yaml", LAB), code=0)
    changes = ("share_by=user", "shares.ada=2", "preemption=true", "credits_per_slot_hour=0.5", "turn=30s")
    printed = shell.tarmac("clusters", "set", "lab/train", *changes, code=0).stdout
    assert "ada 2" in printed
    shell.tarmac("server", "stop", code=0)
    pools = {pool["name"]: pool for pool in shell.json("clusters", "set", "lab/train", "turn=")["pools"]}
    assert (pools["train"]["preemption"], pools["train"]["credits_per_slot_hour"]) == (True, 0.5)
    assert pools["train"]["turn_s"] == 90.0
    for words, said in (
        (("lab/train", "polcy=priority"), "did you mean 'policy'?"),
        (("lab/train", "preemption=maybe"), "true or false is expected"),
        (("lab/nowhere", "turn=30s"), "cluster lab has no pool 'nowhere'"),
        (("lab", "turn=30s"), "a pool with its cluster is expected"),
        (("lab/train", "shares=1", "shares.ada=2"), "'shares' has a value already"),
        (("local/default", "turn=30s"), "settings.toml describes the pools"),
    ):
        assert said in shell.tarmac("clusters", "set", *words, code=2).stderr


def test_the_pages(lab: Shell) -> None:
    table = lab.tarmac("clusters", code=0).stdout.splitlines()
    assert table[0].split() == ["CLUSTER", "ENGINE", "NODES", "FREE", "SLOTS", "TYPES", "POOLS"]
    assert [line.split()[:3] for line in table[1:]] == [["local", "local", "1"], ["lab", "local", "7"]]
    page = lab.tarmac("clusters", "show", "lab", code=0).stdout
    assert "fair_share" in page
    assert "h1 ... h2" in page
    assert [cluster["name"] for cluster in lab.json("clusters")["clusters"]] == ["local", "lab"]
    bad = lab.tarmac("clusters", "add", "-", stdin="nodes: [{slot: 1}]", code=2).stderr
    assert "<stdin>:1:10" in bad
    assert "did you mean 'slots'?" in bad
    assert "no such file" in lab.tarmac("clusters", "add", "nowhere.yaml", code=2).stderr


def test_a_rehearsal_of_a_described_shape(lab: Shell, tmp_path: Path) -> None:
    """The shape of a cluster for one run alone, with its pools, shards and slot types."""
    file = tmp_path / "shape.yaml"
    file.write_text(LAB)
    lab.write("big.yaml", "slots: h100:16\nshard: right\ncommand: echo $NODE_RANK of $NNODES\n")
    said = lab.tarmac("run", "big.yaml", "--rehearse", str(file), code=0).stdout
    assert sorted(line.split("| ")[1] for line in said.splitlines()) == ["0 of 2", "1 of 2"]
    run = lab.json("show", "@last")["run"]["id"]
    assert nodes_of(lab, run) == [f"r1.{run}", f"r2.{run}"]
    lab.write(
        "inline.yaml",
        "slots: 2\npool: a\nrehearse: {nodes: [{slots: 2, pool: a}, {slots: 4, pool: b}]}\n"
        "command: hostname\n",
    )
    lab.tarmac("run", "inline.yaml", code=0)
    assert "nope.yaml" in lab.tarmac("run", "inline.yaml", "--rehearse", "nope.yaml", code=2).stderr


def test_a_cluster_is_checked_and_an_engine_that_is_not_here_is_named(lab: Shell) -> None:
    found = lab.json("clusters", "check", "lab")["findings"]
    assert [item["what"] for item in found if item["ok"]] == ["engine", "home", "disk", "images", "nodes"]
    assert "7 nodes, 42 slots" in lab.tarmac("clusters", "check", "lab", code=0).stdout
    lab.write("hpc.yaml", "engine: slrum\nsettings: {partition: gpu}\ncredentials: {ssh: hpc-key}\n")
    assert "there is no engine 'slrum' here" in lab.tarmac("clusters", "add", "hpc.yaml", code=2).stderr

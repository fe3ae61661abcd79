"""Torture with a real Ray: runs there and on this machine at once, everything struck; then all is counted.

    python tools/torture_ray.py --ray 200 --local 100 --kills 10 --strikes 12 --span 180

The Ray has three nodes, each with a network, processes and a disk of its own. The server is killed at random
moments. Meanwhile agents and raylets are killed, the head of the Ray goes and comes back, and links are cut
for some seconds; Ray is started again where it left, as an administrator would. Nothing accepted may be lost,
no attempt may start twice, no run of this machine may notice, and no process may be left on a node. A run
whose node was lost is tried again. Needs root and Ray (`make test-engines`). Run by hand.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from torture import (
    SHAPES,
    Count,
    Ordeal,
    await_ends,
    count_all,
    kill_servers,
    print_count,
    submit_runs,
    until_answered,
)

from ray_clusters import NODES, RayNodes, running_ray
from tarmac.client import Client

CLUSTER = "gpus"
PATIENCE_S = 420.0
READY_S = 120.0
LEFT_S = 60.0
SUBMITTERS_EACH = 2
GANGS = (1, 1, 2, 6)
"""The last of them needs two nodes of four slots."""

SHORTEST_CUT_S = 2.0
LONGEST_CUT_S = 25.0
"""Ray takes a node for lost after 10 to 20 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayCount:
    """What came of it beside the count of all runs: all but the first two must be zero."""

    strikes: Mapping[str, int]
    tried_again: int
    local_disturbed: int
    processes_left: int
    nodes_missing: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.local_disturbed or self.processes_left or self.nodes_missing)


def torture_ray(
    root: Path, *, ray: int, local: int, kills: int, strikes: int, span_s: float, seed: int
) -> tuple[Count, RayCount]:
    """Run the ordeal below `root`, on a Ray of its own, and count. Raises MissingRay without one."""
    with running_ray(root / "n") as nodes:
        ordeal = Ordeal(home=root / "home", starts=root / "starts.txt", random=Random(seed))
        ordeal.starts.touch()
        with Client(home=ordeal.home) as client:
            client.add_cluster(json.dumps({"name": CLUSTER, "engine": "ray", "settings": nodes.settings()}))
            _await(lambda: _nodes_up(client) == NODES, READY_S)
        threads = [*_submitters(ordeal, ray=ray, local=local, span_s=span_s, seed=seed)]
        pause_s = 2 * span_s / max(kills, 1)
        threads.append(threading.Thread(target=partial(kill_servers, pause_s=pause_s), args=(ordeal, kills)))
        for thread in threads:
            thread.start()
        struck = _strike(nodes, strikes, 2 * span_s / max(strikes, 1), Random(seed))
        for thread in threads:
            thread.join()
        await_ends(ordeal, PATIENCE_S)
        count = count_all(ordeal)
        with Client(home=ordeal.home) as client:
            until_answered(client.version)
            _await(lambda: _nodes_up(client) == NODES, READY_S)
            _await(lambda: _processes_left(nodes) == 0, LEFT_S)
            missing = NODES - _nodes_up(client)
            if missing:
                print(json.dumps(until_answered(partial(client.check_cluster, CLUSTER)), indent=1))
            client.stop_server()
        return count, RayCount(
            strikes=struck,
            tried_again=count.disturbed,
            local_disturbed=sum(run.attempt > 1 and not _on_ray(run.spec) for run in ordeal.ended.values()),
            processes_left=_processes_left(nodes),
            nodes_missing=missing,
        )


def _submitters(
    ordeal: Ordeal, *, ray: int, local: int, span_s: float, seed: int
) -> Sequence[threading.Thread]:
    loads = [(ray, CLUSTER, GANGS), (local, "", SHAPES)] * SUBMITTERS_EACH
    return [
        threading.Thread(
            target=partial(
                submit_runs,
                cluster=cluster,
                slots=slots,
                pause_s=2 * span_s * SUBMITTERS_EACH / max(runs, 1),
            ),
            args=(ordeal, runs // SUBMITTERS_EACH, seed + number),
        )
        for number, (runs, cluster, slots) in enumerate(loads)
    ]


def _strike(nodes: RayNodes, strikes: int, pause_s: float, random: Random) -> Counter[str]:
    """Strike something of the Ray, again and again, each kind as often as the others."""
    kinds: dict[str, Callable[[RayNodes, Random], None]] = {
        "agents killed": _kill_agents,
        "raylets killed": _kill_raylet,
        "links cut": _cut_link,
        "heads killed": _kill_head,
    }
    struck = Counter[str]()
    for number in range(strikes):
        time.sleep(random.uniform(0.0, pause_s))
        kind = list(kinds)[number % len(kinds)]
        kinds[kind](nodes, random)
        struck[kind] += 1
        print(f"struck: {kind}", file=sys.stderr, flush=True)
    return struck


def _kill_agents(nodes: RayNodes, random: Random) -> None:
    for number in random.sample(range(NODES), random.randint(1, NODES)):
        nodes.end_agents(number)


def _kill_raylet(nodes: RayNodes, random: Random) -> None:
    number = random.randrange(1, NODES)
    nodes.end_ray(number, "raylet")
    time.sleep(random.uniform(0.0, LONGEST_CUT_S))
    _start_again(nodes, number)


def _kill_head(nodes: RayNodes, random: Random) -> None:
    nodes.end_ray(0)
    time.sleep(random.uniform(0.0, LONGEST_CUT_S / 2))
    nodes.start_ray(0)


def _cut_link(nodes: RayNodes, random: Random) -> None:
    number = random.randrange(1, NODES)
    nodes.cut(number)
    time.sleep(random.uniform(SHORTEST_CUT_S, LONGEST_CUT_S))
    nodes.restore(number)
    _start_again(nodes, number)


def _start_again(nodes: RayNodes, number: int) -> None:
    nodes.end_ray(number)
    nodes.start_ray(number)


def _nodes_up(client: Client) -> int:
    found = until_answered(client.nodes)
    return sum(node.cluster == CLUSTER and node.state == "up" for node in found)


def _on_ray(spec: Mapping[str, Mapping[str, object]]) -> bool:
    return spec["target"]["cluster"] == CLUSTER


def _processes_left(nodes: RayNodes) -> int:
    """Workers on the nodes: what has the id of a run in its environment."""
    script = "grep -lz ^TARMAC_RUN_ID= /proc/[0-9]*/environ"
    return sum(len(nodes.on(number, "bash", "-c", script, check=False).split()) for number in range(NODES))


def _await(until: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not until() and time.monotonic() < deadline:
        time.sleep(0.5)


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the ordeal, print the count."""
    parser = argparse.ArgumentParser(description="kill the server and parts of a Ray, and count")
    parser.add_argument("--ray", type=int, default=200, help="runs on Ray")
    parser.add_argument("--local", type=int, default=100, help="runs on this machine")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--strikes", type=int, default=12, help="blows to Ray's parts, agents and links")
    parser.add_argument("--span", type=float, default=180.0, help="seconds in which runs are submitted")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="tr-"))  # short: Ray's sockets lie below
    began = time.monotonic()
    count, beside = torture_ray(
        directory,
        ray=parsed.ray,
        local=parsed.local,
        kills=parsed.kills,
        strikes=parsed.strikes,
        span_s=parsed.span,
        seed=parsed.seed,
    )
    print_count(count)
    for kind, times in sorted(beside.strikes.items()):
        print(f"{kind + ':':<21} {times}")
    print(f"local runs disturbed: {beside.local_disturbed}")
    print(f"processes left:       {beside.processes_left}")
    print(f"nodes not up again:   {beside.nodes_missing}")
    print(f"took:                 {time.monotonic() - began:.1f} s")
    if not (replace(count, disturbed=0).clean and beside.clean):
        print(f"all of it is in {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

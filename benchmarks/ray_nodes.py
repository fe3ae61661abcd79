"""`python -m benchmarks.ray_nodes`: runs on a real Ray of three nodes, beside runs here and Ray Jobs.

Called by hand, as root: the nodes are network namespaces of this machine. Runs on the Ray and on this machine
take turns. Then what many nodes cost a server: agents as processes, and no Ray. The budgets are for the
machine of the yardstick, as everywhere.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from benchmarks import yardstick
from benchmarks.figures import spread
from benchmarks.own.draining import LIVE
from benchmarks.peers import ray_jobs
from benchmarks.sandbox import sandbox, submit_many, wait_until
from ray_clusters import NODES, RayNodes, running_ray
from ray_harness import StandInRay
from tarmac import api
from tarmac.client import Client
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.ray.engine import RayEngine
from tarmac.engines.ray.settings import read_settings

SLOTS = 16
"""Of each node: as many runs may be in motion at once as on this machine."""

CLUSTER = "gpus"
CLOCK = "name: clock\ncluster: {}\nslots: 1\ncommand: [date, '+%s.%N']\n"
NO_OP = f"name: no-op\ncluster: {CLUSTER}\nslots: 1\ncommand: ['true']\n"
WATCHED_S = 20.0
BUDGET_P50_MS, BUDGET_P99_MS, BUDGET_DRAIN = 40.0, 150.0, 100.0


def main() -> int:
    """Measure and print; 1 where a budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray_nodes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1000, help="how many are drained")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 10, 50], help="agents as processes")
    options = parser.parse_args()
    machine = yardstick.measure()
    with tempfile.TemporaryDirectory(prefix="rb-") as directory:
        with running_ray(Path(directory, "r")) as nodes, sandbox() as client:
            _add(client, nodes)
            starts = {name: _starts(client, name, options.rounds) for name in (CLUSTER, "local")}
            drained = _drain(client, options.runs)
        peer: Mapping[str, float] = ray_jobs.session()
        costs = {count: _cost(Path(directory, f"n{count}"), count) for count in options.nodes}
    print("| way | first instruction: p50 | p99 | drain |\n|---|---:|---:|---:|")
    found = {name: spread("start", took) for name, took in starts.items()}
    _print_row("tarmac on Ray", found[CLUSTER], drained)
    _print_row("tarmac here", found["local"], None)
    _print_row("Ray Jobs", peer, peer["drain"])
    for count, (server, agents) in costs.items():
        print(f"{count} nodes, no runs: {server:.1%} of a processor here, {agents:.1%} for all agents")
    print(
        f"{machine.python_start_ms:.1f} ms for a bare Python: the budgets are scaled by {machine.scale:.2f}"
    )
    own = found[CLUSTER]
    late = own["start_p50"] > BUDGET_P50_MS * machine.scale
    late = late or own.get("start_p99", 0.0) > BUDGET_P99_MS * machine.scale
    return 1 if late or drained < BUDGET_DRAIN / machine.scale else 0


def _print_row(way: str, starts: Mapping[str, float], rate: float | None) -> None:
    """p99 is there with enough rounds alone."""
    p99 = f"{starts['start_p99']:.0f} ms" if "start_p99" in starts else ""
    drain = f"{rate:.1f} runs/s" if rate is not None else ""
    print(f"| {way} | {starts['start_p50']:.0f} ms | {p99} | {drain} |")


def _add(client: Client, nodes: RayNodes) -> None:
    settings = {**nodes.settings(), "slots": SLOTS}
    words = "".join(f"  {name}: {value!r}\n" for name, value in settings.items())
    client.add_cluster(f"name: {CLUSTER}\nengine: ray\nsettings:\n{words}")
    wait_until(lambda: sum(node.state == "up" for node in _nodes(client)) == NODES, every_s=0.2)


def _nodes(client: Client) -> list[api.Node]:
    return [node for node in client.nodes() if node.cluster == CLUSTER]


def _starts(client: Client, cluster: str, rounds: int) -> list[float]:
    """From the call of the client to the clock that the program prints, in seconds; the first is left out."""
    took_s = []
    for _ in range(rounds + 1):
        began = time.time()
        run_id = client.submit(CLOCK.format(cluster)).id
        client.wait(run_id)
        printed = "".join(chunk.text for chunk in client.logs(run_id))
        took_s.append(float(printed) - began)
    return took_s[1:]


def _drain(client: Client, runs: int) -> float:
    """Runs per second, from the first submission to the end of the last."""
    began = time.perf_counter()
    client.wait(submit_many(client, NO_OP, runs, at_a_time=100)[-1])
    wait_until(lambda: not client.runs(states=LIVE, limit=1).runs, every_s=0.02)
    return runs / (time.perf_counter() - began)


def _cost(directory: Path, count: int) -> tuple[float, float]:
    """What share of a processor the engine of so many nodes takes while nothing runs, and all agents."""
    directory.mkdir()
    ray = StandInRay(count)
    settings = {"address": "127.0.0.1:1", "directory": str(directory / "far"), "slots": SLOTS}
    engine = RayEngine("many", read_settings(settings), ray, Supplies(copies=directory / "copies"))
    try:
        wait_until(lambda: sum(node.state == "up" for node in engine.nodes()) == count, every_s=0.2)
        own_s, agents_s = time.process_time(), _used_s(ray)
        time.sleep(WATCHED_S)
        return (time.process_time() - own_s) / WATCHED_S, (_used_s(ray) - agents_s) / WATCHED_S
    finally:
        engine.close()
        ray.end()


def _used_s(ray: StandInRay) -> float:
    """Processor time of all agents, in seconds."""
    ticks = 0
    for pid in ray.pids.values():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())

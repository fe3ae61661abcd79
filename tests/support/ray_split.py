"""A split brain on a real Ray: the node of a run is cut off, the run goes on elsewhere, and both write.

Used by a test, and by `benchmarks/ray_split.py`, which says how long each step took.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from ray_clusters import NODES, RayNodes
from tarmac import api
from tarmac.client import Client

CLUSTER = "gpus"
LEASE_S = 30
BOUND_S = 300.0
AGAIN_S = 0.1
SETTINGS = "[artifacts]\nkeep_versions = 1000\n"
"""All that was ever kept is there to be looked at."""

TRAINS = """name: trains
cluster: gpus
hostnames: [h1, h2]
slots: 4
artifacts:
  checkpoint_every: 1s
command: |
  state=$CHECKPOINT_ARTIFACT_PATH/state
  save() {{
    echo "$TARMAC_ATTEMPT $(date +%s.%N)" | tee -a {ticks}/$TARMAC_ATTEMPT > $state.draft
    mv $state.draft $state
  }}
  trap 'save; exit 0' TERM
  while true; do save; sleep 0.2; done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What came of it. Times are seconds since the epoch.

    `causes` are those of the attempts, `cut_events` what the runner of the cut one wrote on its node. Of each
    version of the checkpoint that was ever kept, `versions` has the attempt that made it, and the attempt and
    the time that its content names.
    """

    cut_at: float
    lost_at: float
    successor_at: float
    cut_one_ended_at: float
    causes: tuple[str | None, ...]
    cut_events: str
    versions: tuple[tuple[int, int, float], ...]


def split(home: Path, nodes: RayNodes, *, lease_s: int = LEASE_S, aged: bool = False) -> Split:
    """Cut a node off under its run, until that has ended there by itself. The server is at `home`.

    `aged`: once both write at the same time, the lease is made as old as it may become: however busy the
    machine is, it does not expire earlier.
    """
    ticks = home / "ticks"
    ticks.mkdir(parents=True)
    (home / "settings.toml").write_text(SETTINGS)
    with Client(home=home) as client:
        try:
            settings = {**nodes.settings(), "directory": str(nodes.far / "split"), "lease": f"{lease_s}s"}
            client.add_cluster(json.dumps({"name": CLUSTER, "engine": "ray", "settings": settings}))
            _await(lambda: _up(client) == NODES, "the nodes do not come up")
            return _split(client, nodes, ticks, lease_s if aged else None)
        finally:
            for run in client.runs().runs:
                client.stop(run.id)
                client.wait(run.id, timeout_s=BOUND_S)
            client.stop_server()


def _split(client: Client, nodes: RayNodes, ticks: Path, age_s: int | None) -> Split:
    run_id = client.submit(TRAINS.format(ticks=ticks)).id
    _await(lambda: client.artifacts(run_id), "no checkpoint of attempt 1 was kept")
    number = int(client.attempts(run_id)[0].nodes[0][1])
    part = f"{nodes.far}/split/runs/{run_id}/attempts/1/nodes/*"
    events = f"{part}/events.jsonl"
    cut_at = time.time()
    nodes.cut(number)
    try:
        _await(
            lambda: any(version.attempt == 2 for version in client.artifacts(run_id)),
            "no checkpoint of attempt 2 was kept",
        )
        if age_s is not None:
            successor_at = _times(ticks / "2")[0]
            _await(lambda: _times(ticks / "1")[-1] > successor_at, "the cut one does not go on")
            _age(nodes, number, part, age_s)
        _await(lambda: "worker_ended" in _on(nodes, number, events), "the cut one does not end by itself")
        cut_events = _on(nodes, number, events)
    finally:
        nodes.restore(number)
        nodes.end_ray(number)  # a raylet that was declared dead leaves by itself, later
        nodes.start_ray(number)
    _await(lambda: _up(client) == NODES, "the node does not come back")
    client.stop(run_id)
    client.wait(run_id, timeout_s=BOUND_S)
    attempts = client.attempts(run_id)
    return Split(
        cut_at=cut_at,
        lost_at=_queued_again_at(client, run_id, cut_at),
        successor_at=_times(ticks / "2")[0],
        cut_one_ended_at=_times(ticks / "1")[-1],
        causes=tuple(attempt.cause.code if attempt.cause else None for attempt in attempts),
        cut_events=cut_events,
        versions=tuple(_content(client, version) for version in client.artifacts(run_id)),
    )


def _queued_again_at(client: Client, run_id: str, cut_at: float) -> float:
    """When the loss was noticed. (An attempt that was lost ended when its node was last heard of.)"""
    return next(event.at for event in client.events(run_id) if event.state == "queued" and event.at > cut_at)


def _content(client: Client, version: api.Artifact) -> tuple[int, int, float]:
    entries = client.artifact(version.id).entries
    pieces = next(entry.pieces for entry in entries if entry.path == "state")
    attempt, at = b"".join(client.artifact_piece(piece.digest) for piece in pieces).split()
    return version.attempt, int(attempt), float(at)


def _age(nodes: RayNodes, number: int, part: str, age_s: int) -> None:
    """Make the lease of a part on a node, and the contact of its Ray, so old; and have the runner look."""
    at = f"@$(($(cut -d. -f1 /proc/uptime) - {age_s + 1}))"
    nodes.on(number, "bash", "-c", f"touch -d {at} {part}/lease {nodes.far}/split/contact-*")
    nodes.on(number, "bash", "-c", f"printf '!' 1<> {part}/wake")


def _times(path: Path) -> list[float]:
    return [float(line.split()[1]) for line in path.read_text().splitlines()]


def _on(nodes: RayNodes, number: int, files: str) -> str:
    return nodes.on(number, "bash", "-c", f"cat {files}", check=False)


def _up(client: Client) -> int:
    return sum(node.cluster == CLUSTER and node.state == "up" for node in client.nodes())


def _await(until: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + BOUND_S
    while not until():
        assert time.monotonic() < deadline, otherwise
        Event().wait(AGAIN_S)

"""Torture with a real Slurm: runs there and on this machine at once, everything struck; then all is counted.

    python tools/torture_slurm.py --slurm 200 --local 100 --cycles 8 --kills 10 --controller-kills 3 --cuts 20

The server is killed at random moments, and so is Slurm's controller. Half of the runs on Slurm go through its
commands here: of every eight `sbatch` one loses its answer though the job exists, and one never reaches
Slurm. The other half go through SSH, whose connections are cut at either end. Cycle runs have two turns in
a job; a server is also killed now and then until the last turn is over. Nothing accepted may be lost,
no attempt may start twice, and no job may be left. A run whose job the controller had not saved when it was
killed is tried again. A job of which it had not saved that it began is started once more by it: the node
refuses that, Slurm drains it, until an administrator resumes it, and may cancel the job.
Needs Slurm's programs, and rights to start them. Run by hand.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from torture import (
    SHORT,
    Count,
    Ordeal,
    await_ends,
    count_all,
    kill_servers,
    print_count,
    submit,
    submit_runs,
    until_answered,
)

from slurm_clusters import CLUSTER, running_slurm
from ssh_hosts import TARGET, LoginHost, cut_connections, cut_sessions, install_ssh, login_host
from tarmac.client import Client

SITE, FAR = "site", "far"
PATIENCE_S = 420.0
CPUS_PER_NODE = 8

JOBS_PER_CONTROLLER = 10_000
"""Each controller counts its jobs from another number: it knows nothing of those since its last state was
saved, and Slurm ends both jobs where a number that was given once more is still at work.
"""

TURNS = """name: turns
cluster: {cluster}
slots: {slots}
mode: cycle
max_rapid_cycles: 2
command: |
  {body}
"""
TURN_KILLS = 12
TURN_KILL_PAUSE_S = 30.0
"""The longest life of a server while cycle runs have their turns, of 90 s each."""

RESUME_S = 2.0
CUT_PAUSE_S = 2.0
"""The longest life of a connection."""

DESCRIPTION = "name: {name}\nengine: slurm\nsettings: {{directory: {directory}, partition: batch{more}}}\n"
FAULTY_SBATCH = """#!/bin/bash
case $((RANDOM % 8)) in
0) echo lost >> {faults}
   {sbatch} "$@" > /dev/null
   echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
   exit 1 ;;
1) echo refused >> {faults}
   echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller' >&2
   exit 1 ;;
esac
exec {sbatch} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCount:
    """What came of it beside the count of all runs: `jobs_left` must be empty."""

    controller_kills: int
    cuts: int
    answers_lost: int
    submissions_failed: int
    tried_again: int
    cancelled_by_slurm: int
    jobs_left: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strikes:
    """How often what is struck."""

    servers: int
    controllers: int
    connections: int


def torture_slurm(
    root: Path, *, slurm: int, local: int, cycles: int, strikes: Strikes, seed: int
) -> tuple[Count, SiteCount]:
    """Run the ordeal below `root`, on a Slurm of its own, and count."""
    with (
        running_slurm(root / "slurm", cpus_per_node=CPUS_PER_NODE) as variables,
        login_host(root / "login", apart=False, variables=variables) as host,
    ):
        os.environ["SLURM_CONF"] = variables["SLURM_CONF"]
        faults = _install_faults(root)
        clusters = [SITE, FAR] if host is not None else [SITE, SITE]
        if host is not None:
            os.environ["PATH"] = install_ssh(root / "bin", host)
        ordeal = Ordeal(home=root / "home", starts=root / "starts.txt", random=Random(seed))
        ordeal.starts.touch()
        with Client(home=ordeal.home) as client:
            for name in sorted({*clusters}):
                more = f", ssh: {TARGET}" if name == FAR else ""
                client.add_cluster(DESCRIPTION.format(name=name, directory=root / name, more=more))
        loads = [*((slurm // 2, name) for name in clusters), *[(local // 2, "")] * 2]
        work = [
            partial(submit_runs, ordeal, runs, seed + number, cluster=name)
            for number, (runs, name) in enumerate(loads)
        ]
        work += [partial(_submit_cycles, ordeal, cycles // 2, name) for name in clusters]
        work.append(partial(_kill_servers, ordeal, strikes.servers, TURN_KILLS if cycles else 0))
        work.append(partial(_kill_controllers, root / "slurm", strikes.controllers, Random(seed)))
        if host is not None:
            work.append(partial(_cut, ordeal, host, strikes.connections, Random(seed)))
        over = threading.Event()
        administrator = threading.Thread(target=_resume_nodes, args=[over])
        administrator.start()
        try:
            _all_at_once(work)
            await_ends(ordeal, PATIENCE_S)
        finally:
            over.set()
            administrator.join()
        cancelled = _leave_out_cancelled(ordeal)
        found, jobs_left = count_all(ordeal), _jobs_left()
        with Client(home=ordeal.home) as client:
            until_answered(client.version)
            client.stop_server()
        told = faults.read_text().split() if faults.exists() else []
        return found, SiteCount(
            controller_kills=strikes.controllers,
            cuts=strikes.connections if host is not None else 0,
            answers_lost=told.count("lost"),
            submissions_failed=told.count("refused"),
            tried_again=found.disturbed,
            cancelled_by_slurm=cancelled,
            jobs_left=jobs_left,
        )


def _all_at_once(work: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _submit_cycles(ordeal: Ordeal, runs: int, cluster: str) -> None:
    """Submit cycle runs, every second of which has a part on either node."""
    body = SHORT.format(starts=ordeal.starts, rest="exec sleep 3600").replace("\n", "\n  ")
    with ordeal.lock:
        ordeal.submissions += runs
    with Client(home=ordeal.home) as client:
        for number in range(runs):
            slots = 1 if number % 2 else CPUS_PER_NODE + 2
            submit(ordeal, client, TURNS.format(cluster=cluster, slots=slots, body=body), exit_status=0)


def _kill_servers(ordeal: Ordeal, times: int, turn_times: int) -> None:
    """Kill servers in quick succession, then now and then until the turns of cycle runs are over."""
    kill_servers(ordeal, times)
    kill_servers(ordeal, turn_times, pause_s=TURN_KILL_PAUSE_S)


def _cut(ordeal: Ordeal, host: LoginHost, times: int, random: Random) -> None:
    """Cut the connections of whatever server there is, now at this end and now at the other."""
    with Client(home=ordeal.home) as client:
        for number in range(times):
            time.sleep(random.uniform(0.0, CUT_PAUSE_S))
            if number % 2:
                cut_sessions(host)
            else:
                cut_connections(until_answered(client.version).pid)


def _install_faults(root: Path) -> Path:
    """Put a faulty `sbatch` before the real one; the file that each fault is noted in."""
    sbatch, faults = shutil.which("sbatch"), root / "faults.txt"
    program = root / "bin/sbatch"
    program.parent.mkdir()
    program.write_text(FAULTY_SBATCH.format(sbatch=sbatch, faults=faults))
    program.chmod(0o755)
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    return faults


def _kill_controllers(directory: Path, times: int, random: Random) -> None:
    conf = directory / "etc/slurm.conf"
    for number in range(1, times + 1):
        time.sleep(random.uniform(2.0, 8.0))
        while not (directory / "state/job_state").exists():  # what it never saved is no state to come back to
            time.sleep(0.5)
        settings = [line for line in conf.read_text().splitlines() if not line.startswith("FirstJobId=")]
        conf.write_text("\n".join([*settings, f"FirstJobId={number * JOBS_PER_CONTROLLER}", ""]))
        subprocess.run(["bash", str(CLUSTER), "restart", str(directory)], check=True, timeout=60)


def _resume_nodes(over: threading.Event) -> None:
    """What an administrator does with nodes that Slurm has drained."""
    while not over.wait(RESUME_S):
        subprocess.run(
            ["scontrol", "update", "NodeName=n[1-2]", "State=RESUME"], check=False, capture_output=True
        )


def _leave_out_cancelled(ordeal: Ordeal) -> int:
    """Leave out the runs whose jobs Slurm cancelled, as nobody else does here; how many these are."""
    words = "was cancelled in Slurm, not through tarmac"
    cancelled = [
        run_id
        for run_id, run in ordeal.ended.items()
        if run.cause is not None and run.cause.message.endswith(words)
    ]
    for run_id in cancelled:
        del ordeal.expected[run_id], ordeal.ended[run_id]
    ordeal.submissions -= len(cancelled)
    return len(cancelled)


def _jobs_left() -> Sequence[str]:
    """Jobs that have not ended: id, name, state and reason; one that is about to has a moment."""
    for _ in range(40):
        listed = subprocess.run(
            ["squeue", "--noheader", "--states=PD,R,CG,CF", "--format=%i %j %T %r"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        if not listed:
            break
        time.sleep(0.25)
    return listed


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the ordeal, print the count."""
    parser = argparse.ArgumentParser(description="kill the server and Slurm's controller, and count")
    parser.add_argument("--slurm", type=int, default=200, help="runs on Slurm")
    parser.add_argument("--local", type=int, default=100, help="runs on this machine")
    parser.add_argument("--cycles", type=int, default=8, help="cycle runs on Slurm")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--controller-kills", type=int, default=3)
    parser.add_argument("--cuts", type=int, default=20, help="of connections over SSH")
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="tarmac-torture-"))
    began = time.monotonic()
    count, site = torture_slurm(
        directory,
        slurm=parsed.slurm,
        local=parsed.local,
        cycles=parsed.cycles,
        strikes=Strikes(servers=parsed.kills, controllers=parsed.controller_kills, connections=parsed.cuts),
        seed=parsed.seed,
    )
    print_count(count)
    print(f"kill -9 of slurmctld: {site.controller_kills}")
    print(f"connections cut:      {site.cuts}")
    print(f"sbatch without an answer, job there: {site.answers_lost}")
    print(f"sbatch that failed:   {site.submissions_failed}")
    print(f"cancelled by Slurm:   {site.cancelled_by_slurm}")
    print(f"jobs left in Slurm:   {len(site.jobs_left)}", *site.jobs_left[:10], sep="\n    ")
    print(f"took:                 {time.monotonic() - began:.1f} s")
    if site.jobs_left or not replace(count, disturbed=0).clean:
        print(f"all of it is in {directory}")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Stand-ins for Slurm's commands: a queue in a directory, and jobs that really run on this machine.

Installed by `slurm_clusters.install_standin` under the names of the commands; STANDIN names the directory.
Files in it turn knobs: `held` (nobody is given nodes), `down` (the controller does not answer), `lose-answer`
(the next sbatch submits, and says that it timed out), `forgotten/ID` (a job the queue has lost), `ends-as`
(the state of what scancel ends), `ends-in` (the seconds that a job has, as Slurm 23.02 and later tell it),
`scontrol-nodes` and `scontrol-partition` (what these say instead), `reason` (why jobs wait),
`refuses` (what sbatch says of every job).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(os.environ["STANDIN"])
NODES = ("n1", "n2", "n3")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


@contextlib.contextmanager
def locked() -> Iterator[None]:
    with (HERE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def jobs() -> list[dict[str, Any]]:
    found = sorted((HERE / "jobs").iterdir(), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in found if path.suffix == ".json"]


def save(job: dict[str, Any]) -> None:
    path = HERE / "jobs" / f"{job['id']}.new"
    path.write_text(json.dumps(job))
    path.rename(path.with_suffix(".json"))


def change(number: str, **changes: Any) -> None:
    job = json.loads((HERE / "jobs" / f"{number}.json").read_text())
    save({**job, **changes})


def serve() -> None:
    """Give nodes to what waits."""
    if (HERE / "held").exists():
        return
    for job in jobs():
        if job["state"] == "PENDING":
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, "job", job["id"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            save({**job, "state": "RUNNING", "reason": "None", "start": time.time(), "pid": process.pid})


def sbatch(arguments: list[str]) -> None:
    if (HERE / "refuses").exists():
        raise SystemExit(f"sbatch: error: Batch job submission failed: {(HERE / 'refuses').read_text()}")
    if "--test-only" in arguments:
        return
    assert arguments[0] == "--parsable"
    script = Path(arguments[1]).read_text()
    said = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.MULTILINE))
    if said["partition"] != "batch":
        raise SystemExit("sbatch: error: Batch job submission failed: Invalid partition name specified")
    with locked():
        number = str(len(jobs()) + 1)
        path = HERE / "jobs" / f"{number}.sh"
        path.write_text(script)
        path.with_suffix(".env").write_text(json.dumps(dict(os.environ)))  # a job has that of its sbatch
        save(
            {"id": number, "name": said["job-name"], "output": said["output"], "nodes": int(said["nodes"])}
            | {"state": "PENDING", "reason": "Resources", "start": None, "pid": 0}
        )
        serve()
    if (HERE / "lose-answer").exists():
        (HERE / "lose-answer").unlink()
        raise SystemExit(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        )
    say(f"This site's news: maintenance on Monday 7\n{number};bench")


def job(arguments: list[str]) -> None:
    """The life of a job, in a process of its own."""
    number = arguments[0]
    described = json.loads((HERE / "jobs" / f"{number}.json").read_text())
    env = json.loads((HERE / "jobs" / f"{number}.env").read_text())
    env |= {"SLURM_JOB_ID": number, "SLURM_JOB_NODELIST": ",".join(NODES[: described["nodes"]])}
    ends_in = HERE / "ends-in"
    if ends_in.exists():
        env["SLURM_JOB_END_TIME"] = str(int(time.time()) + int(ends_in.read_text()))
    with Path(described["output"]).open("ab") as log:
        process = subprocess.Popen(
            ["bash", str(HERE / "jobs" / f"{number}.sh")], env=env, stdout=log, stderr=log
        )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    with locked():
        if json.loads((HERE / "jobs" / f"{number}.json").read_text())["state"] == "RUNNING":
            change(number, state="COMPLETED" if code == 0 else "FAILED")


def srun(arguments: list[str]) -> None:
    """One task for each node; the last words are the command."""
    count = int(next(word for word in arguments if word.startswith("--ntasks=")).partition("=")[2])
    command = arguments[arguments.index("bash") :]
    tasks = [
        subprocess.Popen(command, env={**os.environ, "SLURM_PROCID": str(rank)}) for rank in range(count)
    ]

    def end(*_: object) -> None:
        for task in tasks:
            task.terminate()

    signal.signal(signal.SIGTERM, end)
    raise SystemExit(max(task.wait() for task in tasks))


def shown_time(at: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at else "N/A"


def squeue(_arguments: list[str]) -> None:
    with locked():
        serve()
        for each in jobs():
            if not (HERE / "forgotten" / each["id"]).exists():
                start, end = shown_time(each["start"]), shown_time(each.get("end"))
                why = HERE / "reason"
                reason = why.read_text() if why.exists() and each["state"] == "PENDING" else each["reason"]
                say("|".join([each["id"], each["state"], start, end, reason, each["name"]]))


def scancel(arguments: list[str]) -> None:
    ends_as = HERE / "ends-as"
    with locked():
        for each in jobs():
            if each["id"] in arguments and (HERE / "forgotten" / each["id"]).exists():
                raise SystemExit("scancel: error: Kill job error on job id 1: Invalid job id specified")
            if each["id"] in arguments and each["state"] in ("PENDING", "RUNNING"):
                save({**each, "state": ends_as.read_text() if ends_as.exists() else "CANCELLED"})
                if each["pid"]:
                    os.kill(each["pid"], signal.SIGTERM)


def sacct(_arguments: list[str]) -> None:
    raise SystemExit("Slurm accounting storage is disabled")


def scontrol(arguments: list[str]) -> None:
    if arguments[:2] == ["show", "hostnames"]:
        say("\n".join(arguments[2].split(",")))
    elif (HERE / f"scontrol-{arguments[1]}").exists():
        say((HERE / f"scontrol-{arguments[1]}").read_text())
    elif arguments[:2] == ["show", "partition"]:
        say("PartitionName=batch MaxTime=1-00:00:00 State=UP TotalNodes=3")
    else:
        wanted = NODES if arguments[1] == "nodes" else (arguments[-1],)
        for name in wanted:
            say(f"NodeName={name} CPUTot=4 Gres=(null) NodeAddr=127.0.0.1 RealMemory=8000 Partitions=batch ")


def main(name: str, arguments: list[str]) -> None:
    if "--version" in arguments:
        say("slurm 23.02.7")
        return
    if (HERE / "down").exists() and name not in ("job", "srun"):
        raise SystemExit(f"{name}: error: Unable to contact slurm controller (connect failure)")
    commands = {"job": job, "srun": srun, "sbatch": sbatch, "squeue": squeue}
    commands |= {"scancel": scancel, "sacct": sacct, "scontrol": scontrol}
    with (HERE / "calls").open("a") as file:
        file.write(f"{name}\n")
    commands[name](arguments)


main(sys.argv[1], sys.argv[2:])

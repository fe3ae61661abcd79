"""Stand-ins for Slurm's commands: a queue in a directory, and jobs that really run on this machine.

Installed by `slurm_clusters.install_standin` under the names of the commands; STANDIN names the directory.
Files in it turn knobs: `held` (nobody is given nodes), `down` (the controller does not answer), `lose-answer`
(the next sbatch submits, and says that it timed out), `forgotten/ID` (a job the queue has lost), `ends-as`
(the state of what scancel ends), `ends-in` (the seconds that a job has, as Slurm 23.02 and later tell it),
`scontrol-nodes` and `scontrol-partition` (what these say instead), `reason` (why jobs wait),
`refuses` (what sbatch says of every job), `version` (which Slurm it is: their answers differ), `accounting`
(sacct knows all jobs), `completing` (a job that has ended is shown once as not quite over),
`strangers` (lines of the queue of the whole site, which others submitted).
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
VERSION = (HERE / "version").read_text() if (HERE / "version").exists() else "23.02.7"


def since(version: str) -> bool:
    """Whether this is that version or a later one."""
    return [int(part) for part in VERSION.split(".")[:2]] >= [int(part) for part in version.split(".")]


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
            | {"cpus": said["cpus-per-task"]}
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
    env |= {"SLURM_JOB_PARTITION": "batch", "SLURM_JOB_ACCOUNT": "proj"}
    ends_in = HERE / "ends-in"
    if ends_in.exists():
        ends_at = int(time.time()) + int(ends_in.read_text())
        (HERE / "jobs" / f"{number}.ends").write_text(str(ends_at))
        if since("23.02"):
            env["SLURM_JOB_END_TIME"] = str(ends_at)
    cpus = described["cpus"]
    env |= {"SLURM_CPUS_PER_TASK": cpus} | ({"SLURM_TRES_PER_TASK": f"cpu={cpus}"} if since("23.11") else {})
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
    """One task for each node; the last words are the command. Outside of a job: on a node that is free."""
    if "--immediate=5" in arguments:
        command = arguments[arguments.index("sh") :]
        os.execvpe("sh", command, {**os.environ, "SLURMD_NODENAME": "n1"})
    cpus = f"--cpus-per-task={os.environ['SLURM_CPUS_PER_TASK']}"
    assert cpus in arguments, "22.05 and 23.02 do not take it from the environment"
    count = int(next(word for word in arguments if word.startswith("--ntasks=")).partition("=")[2])
    command = arguments[arguments.index("bash") :]
    step = {**os.environ, "SLURM_NTASKS": str(count), "SLURM_STEP_ID": "0", "SLURM_LOCALID": "0"}
    ranks = [{"SLURM_PROCID": str(rank), "SLURM_NODEID": str(rank)} for rank in range(count)]
    tasks = [subprocess.Popen(command, env={**step, **rank}) for rank in ranks]

    def end(*_: object) -> None:
        for task in tasks:
            task.terminate()

    signal.signal(signal.SIGTERM, end)
    raise SystemExit(max(task.wait() for task in tasks))


def shown_time(at: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at else "N/A"


def left(number: str) -> str:
    """What %L says: the time that a job has left."""
    ends = HERE / "jobs" / f"{number}.ends"
    if not ends.exists():
        return "UNLIMITED"
    minutes, seconds = divmod(max(0, int(ends.read_text()) - int(time.time())), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


def say_who_waits() -> None:
    """The queue of the whole site, with the jobs of strangers."""
    with (HERE / "calls").open("a") as file:
        file.write("everybody\n")
    strangers = HERE / "strangers"
    say(strangers.read_text() if strangers.exists() else "")
    for each in jobs():
        if each["state"] == "PENDING":
            say(f"{each['id']}|1000|batch|{each['name']}")


def squeue(arguments: list[str]) -> None:
    if "--format=%L" in arguments:
        say(left(next(word for word in arguments if word.startswith("--jobs=")).partition("=")[2]))
        return
    if "--states=PENDING" in arguments:
        say_who_waits()
        return
    assert not arguments or "--me" in arguments, (
        "other queries make the controller send the jobs of everybody"
    )
    with locked():
        serve()
        for each in jobs():
            if not (HERE / "forgotten" / each["id"]).exists():
                if each["state"] not in ("PENDING", "RUNNING") and (HERE / "completing").exists():
                    (HERE / "completing").unlink()
                    each["state"] = "COMPLETING"  # hides what is known of its end
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
            if each["id"] in arguments and each["state"] not in ("PENDING", "RUNNING") and not since("23.11"):
                raise SystemExit(
                    f"scancel: error: Kill job error on job id {each['id']}: "
                    "Job/step already completing or completed"
                )
            if each["id"] in arguments and each["state"] in ("PENDING", "RUNNING"):
                save({**each, "state": ends_as.read_text() if ends_as.exists() else "CANCELLED"})
                if each["pid"]:
                    with contextlib.suppress(ProcessLookupError):  # it has just ended
                        os.kill(each["pid"], signal.SIGTERM)


def sacct(_arguments: list[str]) -> None:
    if not (HERE / "accounting").exists():
        raise SystemExit("Slurm accounting storage is disabled")
    for each in jobs():
        by = f" by {os.getuid()}" if each["state"] == "CANCELLED" else ""
        start, end = shown_time(each["start"]), shown_time(time.time())
        say("|".join([each["id"], f"{each['state']}{by}", start, end, each["name"]]))


def scontrol(arguments: list[str]) -> None:
    if arguments[:2] == ["show", "hostnames"]:
        say("\n".join(arguments[2].split(",")))
    elif (HERE / f"scontrol-{arguments[1]}").exists():
        say((HERE / f"scontrol-{arguments[1]}").read_text())
    elif arguments[:2] == ["show", "partition"]:
        say(partition())
    else:
        wanted = NODES if arguments[1] == "nodes" else (arguments[-1],)
        for name in wanted:
            say(node(name))


def node(name: str) -> str:
    """What `scontrol show node -o` says of it."""
    effective = "CPUEfctv=4 " if since("22.05") else ""
    state = "IDLE+DYNAMIC_NORM" if since("22.05") else "IDLE"
    comment = " LastBusyTime=2026-11-22T15:21:30" if since("21.08") else ""
    resume = " ResumeAfterTime=None" if since("22.05") else ""
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=4 CPUAlloc=0 {effective}CPUTot=4 CPULoad=0.21 "
        f"AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 NodeHostName={name} "
        f"Version={VERSION} OS=Linux 6.1.0 #1 SMP RealMemory=8000 AllocMem=0 FreeMem=7000 Sockets=1 Boards=1 "
        f"State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch  "
        f"BootTime=2026-11-22T15:21:30 SlurmdStartTime=2026-11-22T15:21:30{comment}{resume} "
        "CfgTRES=cpu=4,mem=8000M,billing=4 AllocTRES= CapWatts=n/a "
    )


def partition() -> str:
    """What `scontrol show partition -o` says of the only one."""
    socket = " MaxCPUsPerSocket=UNLIMITED" if since("23.02") else ""
    tres = " TRES=cpu=12,mem=24000M,node=3,billing=12" if since("22.05") else ""
    return (
        "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES "
        "QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO "
        f"MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED{socket} "
        "Nodes=n[1-3] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO "
        f"OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=12 TotalNodes=3{tres} "
        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    )


def main(name: str, arguments: list[str]) -> None:
    if "--version" in arguments:
        say(f"slurm {VERSION}")
        return
    if (HERE / "down").exists() and name not in ("job", "srun"):
        raise SystemExit(f"{name}: error: Unable to contact slurm controller (connect failure)")
    commands = {"job": job, "srun": srun, "sbatch": sbatch, "squeue": squeue}
    commands |= {"scancel": scancel, "sacct": sacct, "scontrol": scontrol}
    with (HERE / "calls").open("a") as file:
        file.write(f"{name}\n")
    commands[name](arguments)


main(sys.argv[1], sys.argv[2:])

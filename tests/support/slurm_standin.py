"""Stand-ins for Slurm's commands: a queue in a directory, and jobs that really run on this machine.

Installed by `slurm_clusters.install_standin` under the names of the commands; STANDIN names the directory.
Files in it turn knobs: `held` (nobody is given nodes), `down` (the controller does not answer), `lose-answer`
(the next sbatch submits, and says that it timed out), `forgotten/ID` (a job the queue has lost), `ends-as`
(the state of what scancel ends), `ends-in` (the seconds that a job has, as Slurm 23.02 and later tell it),
`scontrol-nodes` and `scontrol-partition` (what these say instead), `reason` (why jobs wait),
`refuses` (what sbatch says of every job), `version` (which Slurm it is: their answers differ), `accounting`
(sacct knows all jobs), `completing` (a job that has ended is shown once as not quite over),
`strangers` (lines of the queue of the whole site, which others submitted).

A test calls these commands dozens of times: each imports no more than it needs. The file of a job has lines
NAME=VALUE, and the last one of a name counts: to import JSON would double the start of a command.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TERM = 15
NODES = ("n1", "n2", "n3")


def path(name: str) -> str:
    """A file of the directory."""
    return f"{os.environ['STANDIN']}/{name}"


def knob(name: str) -> bool:
    """Whether a knob is turned."""
    return os.path.exists(path(name))


def read(name: str) -> str:
    with open(path(name)) as file:
        return file.read()


def write(name: str, text: str) -> None:
    with open(path(name), "w") as file:
        file.write(text)


VERSION = read("version") if knob("version") else "23.02.7"


def since(version: str) -> bool:
    """Whether this is that version or a later one."""
    return [int(part) for part in VERSION.split(".")[:2]] >= [int(part) for part in version.split(".")]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def called(name: str) -> None:
    """Note that a command was run."""
    with open(path("calls"), "a") as file:
        file.write(f"{name}\n")


class Locked:
    """While it is held, nobody else changes the queue."""

    def __enter__(self) -> None:
        self._file = open(path("lock"), "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def jobs() -> list[dict[str, Any]]:
    numbers = [int(name.removesuffix(".job")) for name in os.listdir(path("jobs")) if name.endswith(".job")]
    return [load(str(number)) for number in sorted(numbers)]


def load(number: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(line.split("=", 1) for line in read(f"jobs/{number}.job").splitlines())
    times = {name: float(found[name]) if found[name] else None for name in ("start", "end") if name in found}
    return {**found, **times, "nodes": int(found["nodes"]), "pid": int(found["pid"])}


def save(job: dict[str, Any]) -> None:
    lines = [f"{name}={'' if value is None else value}\n" for name, value in job.items()]
    write(f"jobs/{job['id']}.new", "".join(lines))
    os.rename(path(f"jobs/{job['id']}.new"), path(f"jobs/{job['id']}.job"))


def change(number: str, **changes: Any) -> None:
    save({**load(number), **changes})


def serve() -> None:
    """Give nodes to what waits."""
    if knob("held"):
        return
    for each in jobs():
        if each["state"] == "PENDING":
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.setsid()
                nothing = os.open(os.devnull, os.O_RDWR)
                for handle in range(3):
                    os.dup2(nothing, handle)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                os._exit(job(each["id"]))
            save({**each, "state": "RUNNING", "reason": "None", "start": time.time(), "pid": pid})


def sbatch(arguments: list[str]) -> None:
    import re

    if knob("refuses"):
        raise SystemExit(f"sbatch: error: Batch job submission failed: {read('refuses')}")
    if "--test-only" in arguments:
        return
    assert arguments[0] == "--parsable"
    with open(arguments[1]) as file:
        script = file.read()
    said = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.MULTILINE))
    if said["partition"] != "batch":
        raise SystemExit("sbatch: error: Batch job submission failed: Invalid partition name specified")
    with Locked():
        number = str(len(jobs()) + 1)
        write(f"jobs/{number}.sh", script)
        variables = [f"{name}={value}" for name, value in os.environ.items()]  # a job has that of its sbatch
        write(f"jobs/{number}.env", "\0".join(variables))
        save(
            {"id": number, "name": said["job-name"], "output": said["output"], "nodes": int(said["nodes"])}
            | {"cpus": said["cpus-per-task"]}
            | {"state": "PENDING", "reason": "Resources", "start": None, "pid": 0}
        )
        serve()
    if knob("lose-answer"):
        os.unlink(path("lose-answer"))
        raise SystemExit(
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
        )
    say(f"This site's news: maintenance on Monday 7\n{number};bench")


def job(number: str) -> int:
    """The life of a job, in a process of its own."""
    called("job")
    described = load(number)
    env = dict(variable.split("=", 1) for variable in read(f"jobs/{number}.env").split("\0"))
    env |= {"SLURM_JOB_ID": number, "SLURM_JOB_NODELIST": ",".join(NODES[: described["nodes"]])}
    env |= {"SLURM_JOB_PARTITION": "batch", "SLURM_JOB_ACCOUNT": "proj"}
    if knob("ends-in"):
        ends_at = int(time.time()) + int(read("ends-in"))
        write(f"jobs/{number}.ends", str(ends_at))
        if since("23.02"):
            env["SLURM_JOB_END_TIME"] = str(ends_at)
    cpus = described["cpus"]
    env |= {"SLURM_CPUS_PER_TASK": cpus} | ({"SLURM_TRES_PER_TASK": f"cpu={cpus}"} if since("23.11") else {})
    log = os.open(described["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    code = run_all(["bash", path(f"jobs/{number}.sh")], [env], output=log)
    with Locked():
        if load(number)["state"] == "RUNNING":
            change(number, state="COMPLETED" if code == 0 else "FAILED")
    return 0


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
    raise SystemExit(run_all(command, [{**step, **rank} for rank in ranks]))


def run_all(command: list[str], environments: list[dict[str, str]], *, output: int | None = None) -> int:
    """Run a command in each environment; the highest code. SIGTERM is passed on."""
    import _signal

    files = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, handle) for handle in (1, 2)]
    pids = [os.posix_spawnp(command[0], command, env, file_actions=files) for env in environments]

    def end(*_: object) -> None:
        for pid in pids:
            os.kill(pid, TERM)

    _signal.signal(TERM, end)
    codes = []
    for pid in list(pids):
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        pids.remove(pid)
    return max(codes)


def shown_time(at: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) if at else "N/A"


def left(number: str) -> str:
    """What %L says: the time that a job has left."""
    if not knob(f"jobs/{number}.ends"):
        return "UNLIMITED"
    minutes, seconds = divmod(max(0, int(read(f"jobs/{number}.ends")) - int(time.time())), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


def say_who_waits() -> None:
    """The queue of the whole site, with the jobs of strangers."""
    called("everybody")
    say(read("strangers") if knob("strangers") else "")
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
    with Locked():
        serve()
        for each in jobs():
            if not knob(f"forgotten/{each['id']}"):
                if each["state"] not in ("PENDING", "RUNNING") and knob("completing"):
                    os.unlink(path("completing"))
                    each["state"] = "COMPLETING"  # hides what is known of its end
                start, end = shown_time(each["start"]), shown_time(each.get("end"))
                reason = read("reason") if knob("reason") and each["state"] == "PENDING" else each["reason"]
                say("|".join([each["id"], each["state"], start, end, reason, each["name"]]))


def scancel(arguments: list[str]) -> None:
    with Locked():
        for each in jobs():
            if each["id"] in arguments and knob(f"forgotten/{each['id']}"):
                raise SystemExit("scancel: error: Kill job error on job id 1: Invalid job id specified")
            if each["id"] in arguments and each["state"] not in ("PENDING", "RUNNING") and not since("23.11"):
                raise SystemExit(
                    f"scancel: error: Kill job error on job id {each['id']}: "
                    "Job/step already completing or completed"
                )
            if each["id"] in arguments and each["state"] in ("PENDING", "RUNNING"):
                save({**each, "state": read("ends-as") if knob("ends-as") else "CANCELLED"})
                if each["pid"]:
                    try:  # noqa: SIM105 - contextlib would double the start of a stand-in
                        os.kill(each["pid"], TERM)
                    except ProcessLookupError:
                        pass  # it has just ended


def sacct(_arguments: list[str]) -> None:
    if not knob("accounting"):
        raise SystemExit("Slurm accounting storage is disabled")
    for each in jobs():
        by = f" by {os.getuid()}" if each["state"] == "CANCELLED" else ""
        start, end = shown_time(each["start"]), shown_time(time.time())
        say("|".join([each["id"], f"{each['state']}{by}", start, end, each["name"]]))


def scontrol(arguments: list[str]) -> None:
    if arguments[:2] == ["show", "hostnames"]:
        say("\n".join(arguments[2].split(",")))
    elif knob(f"scontrol-{arguments[1]}"):
        say(read(f"scontrol-{arguments[1]}"))
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
    if knob("down") and name != "srun":
        raise SystemExit(f"{name}: error: Unable to contact slurm controller (connect failure)")
    commands = {"srun": srun, "sbatch": sbatch, "squeue": squeue}
    commands |= {"scancel": scancel, "sacct": sacct, "scontrol": scontrol}
    called(name)
    commands[name](arguments)

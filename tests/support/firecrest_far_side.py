"""The far side of the firecREST for tests: commands of a system user, over a real Slurm and the real disk.

Errors have the words and states of a real server, as recorded. Used by `firecrest_server`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COMMAND_S = 20.0
OPS_LIMIT = 5 * 1024 * 1024
COLUMNS = (
    *("JobID", "NumNodes", "Cluster", "GroupName", "Account", "Name", "NodeList", "Partition"),
    *("PriorityLong", "State", "Reason", "TimeUsed", "StartTime", "EndTime", "TimeLimit", "UserName"),
    *("exit_code", "WorkDir"),
)
WIDTH = 512
KINDS = {"f": "-", "d": "d", "l": "l", "p": "p", "s": "s", "c": "c", "b": "b"}


class Failure(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class FarSide:
    """One user's commands: `prefix` becomes that user, `variables` find the Slurm."""

    user: str
    prefix: Sequence[str]
    variables: Mapping[str, str]

    def run(self, argv: Sequence[str], stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
        env = {"PATH": "/usr/bin:/bin:/usr/sbin", "LC_ALL": "C.UTF-8", "HOME": "/", **self.variables, **more}
        return subprocess.run(
            [*self.prefix, *argv],
            input=stdin,
            capture_output=True,
            env=env,
            cwd="/",
            timeout=COMMAND_S,
            check=False,
        )

    def command(self, argv: Sequence[str], stdin: bytes = b"") -> bytes:
        """A file command's output; raises Failure as firecREST words it."""
        done = self.run(argv, stdin)
        if done.returncode == 0:
            return done.stdout
        words = done.stderr.decode(errors="replace").strip()
        message = f"Remote process failed with exit status:{done.returncode} and error message:{words}"
        states = {"No such file or directory": 404, "Permission denied": 403, "Operation not permitted": 403}
        states["File exists"] = 409
        raise Failure(next((state for text, state in states.items() if text in words), 500), message)

    # --- files -----------------------------------------------------------------------------------

    def listing(self, path: str, *, hidden: bool, recursive: bool) -> list[dict[str, Any]]:
        self.command(["ls", "-d", "--", path])
        depth = [] if recursive else ["-maxdepth", "1"]
        parts = r"%y\t%m\t%u\t%g\t%s\t%T+\t%P\t%l\0"
        text = self.command(["find", path, *depth, "-printf", parts]).decode(errors="replace")
        found = [each.split("\t") for each in text.split("\0") if each]
        if len(found) == 1 and found[0][6] == "" and found[0][0] != "d":
            found[0][6] = path
        return [_file(fields) for fields in found if fields[6] and (hidden or "/." not in f"/{fields[6]}")]

    def entry(self, path: str) -> dict[str, Any]:
        parts = r"%y\t%m\t%u\t%g\t%s\t%T+\t%p\t%l"
        text = self.command(["find", path, "-maxdepth", "0", "-printf", parts])
        return _file(text.decode().split("\t"))

    def stat(self, path: str, *, dereference: bool) -> dict[str, int]:
        follow = ["--dereference"] if dereference else []
        numbers = self.command(["stat", *follow, "-c", "%f %i %d %h %u %g %s %X %Z %Y", "--", path]).split()
        names = ("mode", "ino", "dev", "nlink", "uid", "gid", "size", "atime", "ctime", "mtime")
        values = [int(numbers[0], 16), *map(int, numbers[1:])]
        return dict(zip(names, values, strict=True))

    def view(self, path: str, offset: int, size: int) -> str:
        """As a real one: two blocks of this size are read, and characters counted in them."""
        skip, begin = divmod(offset, size)
        script = 'dd if="$1" bs="$2" skip="$3" count=2 status=none'
        blocks = self.command(["sh", "-c", script, "sh", path, str(size), str(skip)])
        if len(blocks) >= OPS_LIMIT:
            raise Failure(502, "Command output exceeded buffer limit.")
        return blocks.decode(errors="replace")[begin : begin + size]

    def upload(self, path: str, content: bytes) -> None:
        self.command(["sh", "-c", 'cat > "$1"', "sh", path], content)

    # --- jobs ------------------------------------------------------------------------------------

    def submit(self, job: Mapping[str, Any]) -> str:
        argv = ["sbatch"]
        env = ",".join(f"{name}={value}" for name, value in (job.get("env") or {}).items())
        argv += [f"--export=ALL,{env}", f"--chdir={job['working_directory']}"]
        argv += [f"--{option}={job[name]}" for name, option in _OPTIONS.items() if job.get(name)]
        return self._slurm(argv, job["script"].encode()).split()[3]

    def cancel(self, job_id: str) -> None:
        self._slurm(["scancel", job_id])

    def jobs(self, *, job_id: str | None = None, name: str | None = None) -> list[dict[str, Any]]:
        form = ",".join(f"{column}:{WIDTH}" for column in COLUMNS)
        argv = ["squeue", "--noheader", "--states=all", f"--user={self.user}", f"--Format={form}"]
        argv += [f"--name={name}"] if name else []
        lines = self._slurm(argv, SLURM_TIME_FORMAT="%s").splitlines()
        records = [
            {column: line[at * WIDTH : (at + 1) * WIDTH].strip() for at, column in enumerate(COLUMNS)}
            for line in lines
        ]
        return [_job(record) for record in records if job_id in (None, record["JobID"])]

    def nodes(self) -> list[dict[str, Any]]:
        lines = self._slurm(["sinfo", "--noheader", "-N", "--format=%N|%c|%f|%o|%t|%R|%e"]).splitlines()
        found: dict[str, dict[str, Any]] = {}
        for name, cpus, features, address, state, partition, free in (line.split("|") for line in lines):
            node = found.setdefault(
                name,
                {
                    **dict.fromkeys(("sockets", "cores", "threads", "cpus", "idleCpus"), int(cpus)),
                    "cpuLoad": 0.0,
                    "freeMemory": int(free) if free.isdigit() else 0,
                    "features": features,
                    "name": name,
                    "address": address,
                    "hostname": address,
                    "state": [state.upper()],
                    "partitions": [],
                    "weight": 1,
                    "allocMemory": 0,
                    "allocCpus": 0,
                },
            )
            node["partitions"].append(partition)
        return list(found.values())

    def partitions(self) -> list[dict[str, Any]]:
        lines = self._slurm(["sinfo", "--noheader", "--summarize", "--format=%R|%C|%D|%a"]).splitlines()
        return [
            {
                "name": name,
                "cpus": int(cpus.split("/")[3]),
                "totalNodes": int(nodes),
                "partition": state.upper(),
            }
            for name, cpus, nodes, state in (line.split("|") for line in lines)
        ]

    def script_of(self, job_id: str) -> str:
        return self._slurm(["scontrol", "write", "batch_script", job_id, "-"])

    def shown(self, job_id: str) -> dict[str, str]:
        text = self._slurm(["scontrol", "show", "job", "-o", job_id])
        return dict(word.partition("=")[::2] for word in text.split())

    def userinfo(self, accounts: Sequence[str]) -> dict[str, Any]:
        def number(option: str) -> dict[str, str]:
            number, name = (
                self.run(["id", flags, self.user]).stdout.decode().strip() for flags in (option, f"{option}n")
            )
            return {"id": number, "name": name}

        group = number("-g")
        return {
            "user": number("-u"),
            "group": group,
            "groups": [group],
            "accounts": [{"name": name, "default": at == 0} for at, name in enumerate(accounts)],
        }

    def _slurm(self, argv: Sequence[str], stdin: bytes = b"", **more: str) -> str:
        done = self.run(argv, stdin, **more)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace")
            message = f"Unexpected Slurm command response. exit_status:{done.returncode} std_err:{words}"
            raise Failure(500, message)
        return done.stdout.decode()


_OPTIONS = {
    "name": "job-name",
    "account": "account",
    "partition": "partition",
    "reservation": "reservation",
    "standard_output": "output",
    "standard_error": "error",
}


def _file(fields: list[str]) -> dict[str, Any]:
    kind, mode, user, group, size, at, name, target = fields
    letters = "".join(
        letter if int(mode[-3 + at // 3]) & (4 >> at % 3) else "-" for at, letter in enumerate("rwxrwxrwx")
    )
    return {
        "name": name,
        "type": KINDS.get(kind, "?"),
        "linkTarget": target or None,
        "user": user,
        "group": group,
        "permissions": letters,
        "lastModified": at.partition(".")[0].replace("+", "T"),
        "size": size,
    }


def _job(record: Mapping[str, str]) -> dict[str, Any]:
    state = record["State"]
    waits = state == "PENDING"
    code, ended = (
        int(record["exit_code"] or 0),
        state not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING"),
    )
    start = _number(record["StartTime"])
    if state == "CANCELLED":
        state = f"CANCELLED by {record['UserName']}"
    return {
        "jobId": record["JobID"],
        "name": record["Name"],
        "status": {
            "state": state,
            "stateReason": record["Reason"],
            "exitCode": None if waits else code >> 8,
            "interruptSignal": None if waits else code & 127,
        },
        "tasks": [],
        "time": {
            "elapsed": _seconds(record["TimeUsed"]),
            "start": None if waits else start,
            "end": _number(record["EndTime"]) if ended else None,
            "suspended": None if waits else 0,
            "limit": _seconds(record["TimeLimit"]),
        },
        "account": record["Account"],
        "allocationNodes": int(record["NumNodes"] or 0),
        "cluster": record["Cluster"],
        "group": record["GroupName"],
        "nodes": record["NodeList"],
        "partition": record["Partition"],
        "killRequestUser": None,
        "user": record["UserName"],
        "workingDirectory": record["WorkDir"],
        "priority": int(record["PriorityLong"] or 0),
    }


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _seconds(text: str) -> int | None:
    """Seconds of `1-02:03:04` and shorter forms."""
    days, _, clock = text.rpartition("-")
    if not clock.replace(":", "").isdigit():
        return None
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds + int(days or 0) * 86_400


def error_body(message: str, user: str | None) -> bytes:
    """The body of an error."""
    body = {"errorType": "error", "message": message, "causedBy": None, "data": None, "user": user}
    return json.dumps(body).encode()

"""One person's job tries to reach another's (N16) on a Slurm whose nodes and login are one machine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import is_running
from slurm_clusters import Missing
from slurm_labs import slurm_lab
from system_users import ATTEMPTS, Lab, as_user, needs_root, processes_of

pytestmark = [
    needs_root,
    pytest.mark.real_engine,
    pytest.mark.xdist_group("slurm-users"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def settled() -> Iterator[Lab]:
    try:
        with slurm_lab() as (made, _):
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


ATTACK = (
    ATTEMPTS
    + """
home, directory, pids = sys.argv[1], sys.argv[2], sys.argv[3:]
attempt("the home of the server", lambda: os.listdir(home))
for name in ("tarmac.db", "secrets.key", "settings.toml", "server.log", "copies", "code"):
    attempt(name, lambda: os.stat(f"{home}/{name}"))
attempt("its socket", lambda: socket.socket(socket.AF_UNIX).connect(f"{home}/server.sock"))
attempt("the home of the other", lambda: os.listdir(os.path.expanduser(f"{directory}/../../../../../..")))
for name in ("", "logs/main.0.0.log", "slurm.sh", "attempt.json", "nodes/rank-0/work", "slurm-begun"):
    attempt(f"the attempt: {name}", lambda: os.stat(f"{directory}/{name}"))
attempt("a leave request", lambda: open(f"{directory}/ask.json", "w"))
for pid in pids:
    attempt(f"environment of {pid}", lambda: open(f"/proc/{pid}/environ").read())
    attempt(f"memory of {pid}", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
    attempt(f"pipes of {pid}", lambda: os.open(f"/proc/{pid}/fd/0", os.O_RDWR))
    attempt(f"output of {pid}", lambda: os.open(f"/proc/{pid}/fd/1", os.O_RDWR))
    attempt(f"root of {pid}", lambda: os.listdir(f"/proc/{pid}/root"))
    attempt(f"end of {pid}", lambda: os.kill(int(pid), 9))
for name in os.listdir("/dev/shm"):
    if os.stat(f"/dev/shm/{name}").st_uid != os.getuid():
        attempt(f"secrets {name}", lambda: os.listdir(f"/dev/shm/{name}"))
attempt("setuid", lambda: os.setuid(0))
print(json.dumps(found))
"""
)
"""Tries everything that the system must refuse; prints what happened."""


def test_n16_a_job_reaches_nothing_of_another_user(settled: Lab) -> None:
    """N16: home, logs, environment, socket, secrets, connection and processes on the same node."""
    admin, ann, bob = settled
    word = ("secret", "set", "WORD", "--shared", "--as", "file", "--file", "-")
    admin.tarmac(*word, stdin="a word that is hidden\n", code=0)
    file = ann.write(
        "victim.yaml",
        "name: victim\ncluster: site\nsecrets: [WORD]\n"
        "command: |\n  cat $SECRET_PATH_WORD\n  echo at work\n  exec sleep 612\n",
    )
    run = ann.tarmac("run", file, "--detach", code=0).stdout.split()[0]
    ann.until("logs", run, said="at work")
    job = ann.json("show", run)["attempts"][-1]["native"]["id"]
    lasting = ("sys.stdin.buffer", "sleep\x00612", "tarmac/node", "srun")
    pids = {pid: line for pid, line in processes_of(ann).items() if any(word in line for word in lasting)}
    assert any("sleep\x00612" in line for line in pids.values())
    assert any("sys.stdin.buffer" in line for line in pids.values()), "the far end of the connection"
    name = ann.account.pw_name
    directory = f"/home/{name}/.tarmac/site/runs/{run}/attempts/1"
    given = [str(admin.home), directory, *map(str, pids)]
    bob.write("attack.py", ATTACK)
    said = bob.tarmac(
        "run", "--code", ".", "--cluster=site", "--", "python3", "attack.py", *given, code=0
    ).stdout
    inside = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    # Without the namespaces of a run, in a login of the same user:
    login = [*as_user(bob.account), "/usr/bin/python3", "-c", ATTACK, *given]
    outside = json.loads(subprocess.run(login, capture_output=True, text=True, check=True).stdout)
    refusals = {"PermissionError", "FileNotFoundError", "ProcessLookupError", "NotADirectoryError"}
    for found in (inside, outside):
        assert found.pop("setuid") in ("OSError", "PermissionError"), "a namespace without root: EINVAL"
        assert len(found) >= 15 + 6 * len(pids)
        assert not {key: value for key, value in found.items() if value not in refusals}
    assert any(each.startswith("secrets ") for each in outside)
    assert {value for key, value in outside.items() if " of " in key} == {"PermissionError"}, outside
    spooled = [*Path(os.environ["SLURM_CONF"]).parents[1].glob("spool/*/job*")]
    assert spooled
    for argv in (
        ("scancel", job),
        ("scontrol", "hold", job),
        ("scontrol", "requeue", job),
        ("scontrol", "write", "batch_script", job, "-"),
        ("scontrol", "update", f"jobid={job}", "timelimit=1"),
        ("srun", f"--jobid={job}", "--overlap", "id"),
        *(("ls", str(path)) for path in spooled),
    ):
        tried = subprocess.run(
            [*as_user(bob.account), *argv], capture_output=True, text=True, check=False, timeout=60
        )
        assert tried.stderr, (argv, tried)
        assert not tried.stdout, (argv, tried)
    bob.tarmac("exec", run, "--", "id", code=1)
    assert {pid for pid in pids if is_running(pid)} == {*pids}
    ann.tarmac("stop", "--wait", run, code=0)

"""One person's run tries to reach another's (N16), on one machine of root: the kernel refuses everything."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import is_running
from system_users import ATTEMPTS, Lab, as_user, lab, needs_root, worker_of

pytestmark = [needs_root, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("lab")) as made:
        yield made


ATTACK = (
    ATTEMPTS
    + """
home, ann, victim, pid = sys.argv[1:]
attempt("the home of the server", lambda: os.listdir(home))
for name in ("tarmac.db", "token", "secrets.key", "settings.toml", "server.log", "code", "artifacts"):
    attempt(name, lambda: os.stat(f"{home}/{name}"))
attempt("other runs", lambda: os.listdir(f"{home}/runs/{victim}"))
attempt("its log", lambda: open(f"{home}/runs/{victim}/attempts/1/logs/main.0.0.log").read())
attempt("its work", lambda: os.listdir(f"{home}/runs/{victim}/attempts/1/nodes/node1/work"))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect(f"{home}/server.sock"))
attempt("home of a person", lambda: os.listdir(f"/home/{ann}"))
attempt("environment", lambda: open(f"/proc/{pid}/environ").read())
attempt("memory", lambda: open(f"/proc/{pid}/mem", "rb").read(1))
attempt("kill", lambda: os.kill(int(pid), 9))
attempt("runner's environment", lambda: open("/proc/1/environ").read())
attempt("runner's files", lambda: os.listdir("/proc/1/fd"))
attempt("kill the runner", lambda: os.kill(1, 9))
attempt("setuid", lambda: os.setuid(0))
attempt("shadow", lambda: open("/etc/shadow").read())
for name in os.listdir("/dev/shm"):
    if name.startswith("tarmac-"):
        attempt(f"secrets {name}", lambda: os.listdir(f"/dev/shm/{name}"))
own = os.environ["TARMAC_REPORTS_FILE"].rpartition("/")[0]
for name in ("claim", "events.jsonl", "wake"):
    attempt(f"own {name}", lambda: open(f"{own}/{name}", "r+"))
    attempt(f"remove own {name}", lambda: os.unlink(f"{own}/{name}"))
attempt("rename own part", lambda: os.rename(own, f"{own}.away"))
print(json.dumps(found))
"""
)
"""Tries everything that the system must refuse; prints what happened."""


def test_n16_a_run_reaches_nothing_of_another_user(settled: Lab) -> None:
    """N16: home, logs, environment, socket, tokens, secrets and processes on the same node, by the kernel."""
    admin, ann, bob = settled
    assert admin.tarmac(
        "secret", "set", "WORD", "--shared", "--as", "file", "--file", "-", stdin="hush", code=0
    )
    file = ann.write(
        "victim.yaml",
        "name: victim\nsecrets: [WORD]\nenvironment: {variables: {PRIVATE: mine}}\n"
        "command: |\n  echo a line of mine\n  cat $WORD\n  exec sleep 600\n",
    )
    run = ann.tarmac("run", file, "--detach", code=0).stdout.split()[0]
    ann.wait_until(run, "running")
    pid = worker_of(ann, run)
    bob.write("attack.py", ATTACK)
    said = bob.tarmac(
        *(
            "run",
            "--code",
            ".",
            "--",
            "python3",
            "attack.py",
            str(admin.home),
            ann.account.pw_name,
            run,
            str(pid),
        ),
        code=0,
    ).stdout
    found = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert len(found) >= 29
    assert found.pop("the home of the server") == "['environments', 'runs']", "a view without anything else"
    assert any(name.startswith("secrets ") for name in found)
    refusals = {"PermissionError", "FileNotFoundError", "ProcessLookupError", "NotADirectoryError"}
    assert set(found.values()) <= refusals, found
    # Without the namespaces of a run, in a shell of the same user:
    for script in (
        f"cat /proc/{pid}/environ",
        f"kill -9 {pid}",
        f"ls /proc/{pid}/fd",
        f"ls /proc/{pid}/root",
        f"ls {admin.home}",
        f"cat {admin.home}/runs/{run}/attempts/1/logs/main.0.0.log",
        f"ls /home/{ann.account.pw_name}",
        "ls /dev/shm/tarmac-*",
    ):
        tried = subprocess.run(
            [*as_user(bob.account), "sh", "-c", script], capture_output=True, text=True, check=False
        )
        assert tried.returncode != 0, script
        assert "denied" in tried.stderr or "not permitted" in tried.stderr, (script, tried.stderr)
    assert is_running(pid)
    ann.tarmac("stop", "--wait", run, code=0)


LINKS = """
part=$(dirname "$TARMAC_REPORTS_FILE")
cd "$part/../../../../artifacts"
echo mine > checkpoint/mine
mv crud crud.away && ln -s {home} crud
mv lossy lossy.away && ln -s /root lossy
ln -s /etc/shadow log/shadow
ln -f -s /etc/shadow "$part/../../logs/main.0.0.log"
rm -f "$TARMAC_REPORTS_FILE" && ln -s /etc/shadow "$TARMAC_REPORTS_FILE"
mv "$part/work" "$part/work.away" && ln -s {precious} "$part/work"
"""
"""Puts links in place of all that the server reads, stores or removes."""


def test_n16_no_link_leads_the_server_further_than_the_user(settled: Lab, tmp_path: Path) -> None:
    """N16: the sidecar, the logs, the reports and the removal of a run follow none with root's rights."""
    admin, bob = settled.admin, settled.bob
    (precious := tmp_path / "precious").mkdir()
    (precious / "data").write_text("root's")
    script = LINKS.format(home=admin.home, precious=precious)
    bob.tarmac("run", "--name", "links", "--", "bash", "-ec", script, code=0)
    shown = bob.tarmac("logs", "links").stdout + bob.tarmac("show", "links", "--json", code=0).stdout
    assert "root:" not in shown
    assert "checkpoint" in bob.tarmac("artifacts", "ls", "links", code=0).stdout
    stored = [path for path in (admin.home / "artifacts").rglob("*") if path.is_file()]
    assert not [path for path in stored if b"settings.toml" in path.read_bytes()]
    bob.tarmac("rm", "-y", "links", code=0)
    assert (precious / "data").read_text() == "root's"

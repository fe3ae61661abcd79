"""Runs of two accounts as system users of their own (N15, N16), on a real Ray whose agents are root."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ray_clusters import RayNodes
from system_users import ATTEMPTS, SAVES, Lab, Member, as_user, lab, needs_root, unchanged_accounts

pytestmark = [
    needs_root,
    pytest.mark.real_engine,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(900),
]

ON_RAY = ("--cluster", "gpus")


@pytest.fixture(scope="module")
def settled(cluster: RayNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server with two members, which has added the Ray as `gpus`."""
    with lab(tmp_path_factory.mktemp("lab"), settings="[runs]\nleast_uid = 900\n") as made:
        given = {**cluster.settings(), "directory": str(far(cluster))}
        options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        made.admin.tarmac("clusters", "add", "gpus", "--engine", "ray", *options, code=0)
        for number in range(3):
            made.admin.until("nodes", *ON_RAY, said=f"h{number}.gpus  up")
        yield made


def far(cluster: RayNodes) -> Path:
    """The directory for the runs of this server on every node."""
    return cluster.far / "users"


def on_node(number: int, member: Member, name: str, text: str) -> str:
    """The name of a run file for one node of the Ray."""
    return member.write(f"{name}.yaml", f"name: {name}\nhostnames: h{number}\n{text}")


def begun(member: Member, file: str) -> str:
    """The id of a run of this file, once it runs."""
    run = member.tarmac("run", file, *ON_RAY, "--detach", code=0).stdout.split()[0]
    member.wait_until(run, "running")
    return run


def test_n15_every_process_on_every_node_is_the_users(settled: Lab) -> None:
    """N15: workers of all nodes, setup steps, hooks, a session; a run of no system user is as before."""
    ann, name = settled.ann, settled.ann.account.pw_name
    ann.write("code/data.txt", "the code\n")
    file = ann.write(
        "code/wide.yaml",
        "name: wide\ncode: .\nresources: {slots: 4}\nreplicas: 3\nsetup:\n- echo step $(id -un) > step.txt\n"
        "hooks: {before: ['echo hook $(id -un) > hook.txt']}\n"
        "command: |\n  cat step.txt; [ $TARMAC_REPLICA != 0 ] || cat hook.txt\n  stat -c '%n %U' data.txt\n"
        "  echo $HOME\n  grep -E 'Uid|CapEff|NoNewPrivs' /proc/self/status | tr '\\n\\t' '  '\n  echo\n"
        "  ! env | grep RAY_\n  python3 -c 'import tarmac; tarmac.report(1, loss=2); print(\"reported\")'\n",
    )
    said = ann.tarmac("run", file, *ON_RAY, code=0).stdout.splitlines()
    uid = ann.account.pw_uid
    for replica in range(3):
        lines = [line.partition("| ")[2] for line in said if line.startswith(f"main.{replica}|")]
        assert lines == [
            f"step {name}",
            *([f"hook {name}"] if replica == 0 else []),
            f"data.txt {name}",
            f"/home/{name}",
            f"Uid: {uid} {uid} {uid} {uid} CapEff: 0000000000000000 NoNewPrivs: 1 ",
            "reported",
        ]
    assert ann.json("metrics", "wide")
    run = begun(ann, on_node(1, ann, "waits", "command: sleep 600\n"))
    inside = ann.tarmac("exec", run, "--", "sh", "-c", "id -un; grep NoNew /proc/self/status", code=0)
    assert inside.stdout.split() == [name, "NoNewPrivs:", "1"]
    ann.tarmac("stop", "--wait", run, code=0)
    assert settled.admin.tarmac("run", *ON_RAY, "--", "id", "-un", code=0).stdout == "root\n"


def test_n15_a_checkpoint_goes_to_another_node_through_the_server(settled: Lab) -> None:
    """N15: the store is the server's, behind a socket of root; the files are the user's on each node."""
    ann, name = settled.ann, settled.ann.account.pw_name
    ann.write("resume/train.py", SAVES)
    first = ann.write("resume/run.yaml", "name: resume\ncode: .\nhostnames: h1\ncommand: python3 train.py\n")
    run = ann.tarmac("run", first, *ON_RAY, "--detach", code=0).stdout.split()[0]
    ann.until("logs", run, said="saved")
    ann.tarmac("pause", "--wait", run, code=0)
    assert "checkpoint" in ann.tarmac("artifacts", "ls", run, code=0).stdout
    text = f"name: again\ncode: .\nhostnames: h2\ninput_artifacts: [{run}]\ncommand: python3 train.py\n"
    said = ann.tarmac("run", ann.write("resume/again.yaml", text), *ON_RAY, code=0).stdout
    assert said.splitlines() == ["found seven", f"mine {name}"]
    ann.tarmac("stop", "--wait", run, code=0)


ATTACK = (
    ATTEMPTS
    + """
home, ann, victim, address = sys.argv[1:]
for name in ("agents.json", "code", "notify", f"contact-{address}", f"artifacts-{address}.sock", "staging"):
    attempt(name, lambda: os.stat(f"{home}/{name}"))
attempt("other runs", lambda: os.listdir(f"{home}/runs/{victim}"))
attempt("its log", lambda: open(f"{home}/runs/{victim}/attempts/1/logs/main.0.0.log").read())
attempt("its artifacts", lambda: os.listdir(f"{home}/disks/h1.gpus/{victim}/artifacts"))
attempt("its packages", lambda: os.listdir(f"{home}/environments/of/{ann}"))
attempt("store", lambda: socket.socket(socket.AF_UNIX).connect(f"{home}/artifacts-{address}.sock"))
attempt("home of a person", lambda: os.listdir(f"/home/{ann}"))
attempt("runner's environment", lambda: open("/proc/1/environ").read())
attempt("runner's files", lambda: os.listdir("/proc/1/fd"))
attempt("kill the runner", lambda: os.kill(1, 9))
attempt("setuid", lambda: os.setuid(0))
for name in os.listdir("/dev/shm"):
    if name.startswith("tarmac-"):
        attempt(f"secrets {name}", lambda: os.listdir(f"/dev/shm/{name}"))
own = os.environ["TARMAC_REPORTS_FILE"].rpartition("/")[0]
for name in ("claim", "events.jsonl", "wake", "lease"):
    attempt(f"own {name}", lambda: open(f"{own}/{name}", "r+"))
    attempt(f"remove own {name}", lambda: os.unlink(f"{own}/{name}"))
    attempt(f"set the time of own {name}", lambda: os.utime(f"{own}/{name}", (2e9, 2e9)))
print(json.dumps(found))
"""
)
"""Tries everything that the system must refuse on a node of a Ray; prints what happened."""


def test_n16_a_run_reaches_nothing_of_another_user_on_its_node(settled: Lab, cluster: RayNodes) -> None:
    """N16: files, logs, environment, secrets and processes, from a run and from a shell of the same user."""
    admin, ann, bob = settled
    admin.tarmac("secret", "set", "WORD", "--shared", "--as", "file", "--file", "-", stdin="hush", code=0)
    run = begun(
        ann,
        on_node(
            1,
            ann,
            "victim",
            "secrets: [WORD]\nenvironment: {variables: {PRIVATE: mine}}\n"
            "command: |\n  echo a line of mine\n  cat $WORD\n  exec sleep 600\n",
        ),
    )
    home, user = far(cluster), ann.account.pw_name
    bob.write("attack/attack.py", ATTACK)
    words = f"python3 attack.py {home} {user} {run} {cluster.subnet}.11"
    bob.write("attack/attack.yaml", f"name: attack\nhostnames: h1\ncode: .\ncommand: {words}\n")
    said = bob.tarmac("run", "attack/attack.yaml", *ON_RAY, code=0).stdout
    found = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert len(found) >= 28
    assert any(name.startswith("secrets ") for name in found)
    refusals = {"PermissionError", "FileNotFoundError", "NotADirectoryError"}
    assert set(found.values()) <= refusals, found
    pid = cluster.on(1, "pgrep", "-u", str(ann.account.pw_uid), "-f", "sleep 600").split()[0]
    log = f"{home}/runs/{run}/attempts/1/logs/main.0.0.log"
    for script in (
        f"cat /proc/{pid}/environ",
        f"kill -9 {pid}",
        f"ls /proc/{pid}/fd",
        f"ls /proc/{pid}/root",
        f"ls {home}",
        f"cat {log}",
        f"ls /home/{user}",
        "ls /dev/shm/tarmac-*",
    ):
        asked = ("sh", "-c", f"({script}) 2>&1; echo code $?")
        tried = cluster.on(1, *as_user(bob.account), *asked)
        assert "denied" in tried or "not permitted" in tried, (script, tried)
        assert "code 0" not in tried, (script, tried)
    assert "a line of mine" in cluster.on(1, "cat", log)
    assert pid in cluster.on(1, "pgrep", "-f", "sleep 600").split()
    ann.tarmac("stop", "--wait", run, code=0)


LINKS = """
part=$(dirname "$TARMAC_REPORTS_FILE")
echo mine > "$CHECKPOINT_ARTIFACT_PATH/mine"
cd {home}/disks/h1.gpus/$TARMAC_RUN_ID/artifacts
mv crud crud.away && ln -s {home} crud
mv lossy lossy.away && ln -s /root lossy
ln -s /etc/shadow log/shadow
ln -f -s /etc/shadow "$part/../../logs/main.0.0.log"
rm -f "$TARMAC_REPORTS_FILE" && ln -s /etc/shadow "$TARMAC_REPORTS_FILE"
mv "$part/work" "$part/work.away" && ln -s {precious} "$part/work"
"""
"""Puts links in place of all that the agent reads and removes, and the sidecar stores."""


def test_n16_no_link_leads_the_agent_or_the_sidecar_further_than_the_user(
    settled: Lab, cluster: RayNodes
) -> None:
    """N16: logs, reports, artifacts and the removal of a run follow none with root's rights."""
    admin, bob = settled.admin, settled.bob
    precious = far(cluster) / "precious"
    cluster.on(1, "sh", "-c", f"mkdir {precious}; echo hers > {precious}/data")
    bob.write("links/links.sh", LINKS.format(home=far(cluster), precious=precious))
    bob.write("links/run.yaml", "name: links\nhostnames: h1\ncode: .\ncommand: bash -e links.sh\n")
    bob.tarmac("run", "links/run.yaml", *ON_RAY, code=0)
    shown = bob.tarmac("logs", "links").stdout + bob.tarmac("show", "links", "--json", code=0).stdout
    assert "root:" not in shown
    assert "checkpoint" in bob.tarmac("artifacts", "ls", "links", code=0).stdout
    stored = [path for path in (admin.home / "artifacts").rglob("*") if path.is_file()]
    assert not [path for path in stored if b"hers" in path.read_bytes()]
    bob.tarmac("rm", "-y", "links", code=0)
    assert cluster.on(1, "cat", f"{precious}/data") == "hers\n"


@contextmanager
def database(cluster: RayNodes, number: int, change: tuple[str, str]) -> Iterator[None]:
    """Another database of users on one node, by a pattern and its replacement."""
    file = cluster.root / "passwd"
    with unchanged_accounts():  # a new file in its place would take the mount away
        file.write_text(re.sub(*change, Path("/etc/passwd").read_text(), flags=re.MULTILINE))
        cluster.on(number, "mount", "--bind", str(file), "/etc/passwd")
        try:
            yield
        finally:
            cluster.on(number, "umount", "/etc/passwd")


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        ("", "this machine has no system user {}"),
        (
            r"\1:x:5:5::/home:/bin/bash\n",
            "{} is an account of the system (uid 5): runs use accounts from uid 900",
        ),
        (r"\1:x:0:0::/home:/bin/bash\n", "{} is an account of the system (uid 0)"),
    ],
    ids=["unknown", "of the system", "root"],
)
def test_n15_every_node_of_the_placement_must_know_the_user(
    settled: Lab, cluster: RayNodes, replacement: str, reason: str
) -> None:
    """N15: its own database counts: the run ends with the node and the reason, and starts on none."""
    bob, name = settled.bob, settled.bob.account.pw_name
    file = bob.write("wide.yaml", "name: wide\nresources: {slots: 4}\nreplicas: 3\ncommand: id -un\n")
    with database(cluster, 2, (f"^({name}):.*\n", replacement)):
        run = bob.tarmac("run", file, *ON_RAY, "--detach", code=0).stdout.split()[0]
        bob.wait_until(run, "ended")
        assert bob.json("show", run)["run"]["outcome"] == "failed"
        shown = " ".join(bob.tarmac("show", run).stdout.split())
        assert f"h2.gpus cannot run it as the system user {name}: {reason.format(name)}" in shown
        for number in range(3):
            assert run not in cluster.on(number, "ls", str(far(cluster) / "runs"))
        ran = bob.tarmac("run", on_node(1, bob, "other", "command: id -un\n"), *ON_RAY, code=0)
        assert ran.stdout == f"{name}\n"
    assert bob.tarmac("run", file, *ON_RAY, code=0).stdout.count(name) == 3


def test_n15_a_lost_runner_starts_again_as_the_user(settled: Lab, cluster: RayNodes) -> None:
    """N15: the agent ends the user's processes that it left, and the next attempt is the user's."""
    ann, name = settled.ann, settled.ann.account.pw_name
    text = "command: |\n  [ $TARMAC_ATTEMPT = 2 ] || exec sleep 601\n  id -un\n"
    run = begun(ann, on_node(1, ann, "lost", text))
    claim = f"{far(cluster)}/runs/{run}/attempts/1/nodes/h1.gpus/claim"
    runner = json.loads(cluster.on(1, "cat", claim))["process"]["pid"]
    cluster.on(1, "kill", "-9", str(runner))
    ann.wait_until(run, "ended")
    assert ann.tarmac("logs", run, code=0).stdout == f"{name}\n"
    assert not cluster.on(1, "pgrep", "-f", "sleep 601", check=False)


def test_n15_a_ray_without_a_token_runs_nothing_as_a_system_user(settled: Lab) -> None:
    """N15: every run could start processes of root through such a Ray."""
    settled.admin.tarmac("clusters", "add", "open", "--engine", "ray", "--set", "address=127.0.0.1:1", code=0)
    name = settled.ann.account.pw_name
    refused = settled.ann.tarmac("run", "--cluster", "open", "--", "true", code=2)
    assert (
        f"runs cannot run as the system user {name} on cluster open: its Ray has no token" in refused.stderr
    )
    assert "tarmac clusters check open" in refused.stderr
    settled.admin.tarmac("clusters", "rm", "open", code=0)


def test_the_check_of_a_cluster_says_of_each_node_whether_it_runs_runs_as_system_users(
    settled: Lab,
) -> None:
    said = settled.admin.tarmac("clusters", "check", "gpus").stdout
    assert said.count("runs as system users: its agent is root") == 3

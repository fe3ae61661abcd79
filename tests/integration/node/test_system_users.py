"""Runs as a system user on one node, with real runners of root: what they prepare and refuse (N15, N16)."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attempts import AttemptDirectory, Warm, copy_of_node, worker, write_attempt
from system_users import needs_root, two_users
from tarmac.node.attempt.document import Launch, NodeLaunch, NodeSettings
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.kernel import handles, system_users
from tarmac.node.processes.lease import Lease

pytestmark = needs_root

PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def accounts() -> Iterator[tuple[pwd.struct_passwd, pwd.struct_passwd]]:
    with two_users() as found:
        yield found


@pytest.fixture
def user(accounts: tuple[pwd.struct_passwd, pwd.struct_passwd]) -> pwd.struct_passwd:
    return accounts[0]


def attempt_of(name: str, root: Path, script: str, **fields: Any) -> AttemptDirectory:
    return write_attempt(root, [worker(script, env=PATH)], runs_as={"name": name}, **fields)


def cause_of(warm: Warm, attempt: AttemptDirectory) -> dict[str, Any]:
    ended = warm.run(attempt)
    assert ended["outcome"] == "failed"
    assert "worker_started" not in attempt.kinds()
    cause: dict[str, Any] = ended["cause"]
    assert cause["code"] == "setup_failed"
    return cause


def test_n15_the_groups_are_those_of_the_nodes_database(
    warm: Warm, user: pwd.struct_passwd, tmp_path: Path
) -> None:
    """N15: supplementary groups, group, user; every process says so itself."""
    attempt = attempt_of(user.pw_name, tmp_path, "grep -E '^(Uid|Gid|Groups)' /proc/self/status")
    assert warm.run(attempt)["outcome"] == "completed"
    groups = " ".join(map(str, sorted(os.getgrouplist(user.pw_name, user.pw_gid))))
    same = [
        f"{name}:\t" + "\t".join([str(number)] * 4)
        for name, number in (("Uid", user.pw_uid), ("Gid", user.pw_gid))
    ]
    assert [line.strip() for line in attempt.log().splitlines()] == [*same, f"Groups:\t{groups}"]
    assert len(groups.split()) == 2


def test_n15_what_a_run_needs_is_shown_in_directories_that_its_user_may_not_pass(
    warm: Warm, user: pwd.struct_passwd, tmp_path: Path
) -> None:
    """N15: its own directories and the SDK, and nothing else, however closed the directories above are."""
    (closed := tmp_path / "closed").mkdir(mode=0o700)
    (closed / "secret").write_text("hush")
    sdk = copy_of_node(closed / "lib") / "shim"
    script = f"""
python3 -c 'import tarmac; tarmac.report(1, loss=1.0); print("reported")'
ls {closed}; cat {closed}/secret; echo new > file && cat file; ls -d /root/.*
"""
    attempt = attempt_of(user.pw_name, closed, script, sdk=str(sdk))
    warm.run(attempt)
    said = attempt.log()
    assert said.startswith("reported\n")
    assert f"{attempt.path.name}\nlib\n" in said
    assert "hush" not in said
    assert "secret: No such file" in said
    assert "\nnew\n" in said
    assert Path(attempt.node().reports).stat().st_uid == user.pw_uid
    for path in (attempt.node().claim, attempt.node().events, attempt.paths.description):
        assert Path(path).stat().st_uid == 0


def test_n15_literal_paths_are_made_of_what_the_user_can_reach(
    warm: Warm, user: pwd.struct_passwd, tmp_path: Path
) -> None:
    """N15: a bind may cover anything in the run's own view; its source is opened with the user's rights."""
    home = Path(user.pw_dir)
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "mine").write_text("mine\n")
    mounts = [
        {"source": str(home / "data"), "target": "/somewhere/data"},
        {"source": str(home / "data"), "target": "/etc/opt"},
        {"source": str(home / "data"), "target": f"{home}/new/data", "variables": ["DATA"]},
    ]
    saved = "/mnt/checkpoints/file"
    script = f"cat /somewhere/data/mine /etc/opt/mine; echo saved > {saved}; stat -c %U {saved}"
    attempt = attempt_of(user.pw_name, tmp_path, script, mounts=mounts)
    assert warm.run(attempt)["outcome"] == "completed", attempt.log()
    assert attempt.log().split() == ["mine", "mine", user.pw_name]
    assert (Path(attempt.artifacts["checkpoint"]) / "file").read_text() == "saved\n"
    (notice,) = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    assert notice.startswith(
        f"not available here: {home}/new/data (users can change a directory above it, or may not pass one)"
    )
    assert not (home / "new").exists()
    assert not Path("/somewhere").exists()

    (tmp_path / "closed" / "open").mkdir(parents=True, mode=0o755)
    (tmp_path / "closed").chmod(0o700)
    bind = {"source": str(tmp_path / "closed" / "open"), "target": "/somewhere"}
    refused = attempt_of(user.pw_name, tmp_path, "ls /somewhere", mounts=[bind])
    ended = warm.run(refused)
    assert ended["outcome"] == "failed"
    assert "permission denied" in ended["cause"]["message"]


def test_n15_a_node_refuses_what_is_no_users_account(warm: Warm, accounts: Any, tmp_path: Path) -> None:
    """N15: the node looks again: an account may differ from that of the server's machine, or be gone."""
    for name, reason in (
        ("tarmac-nobody-here", "this machine has no system user tarmac-nobody-here"),
        ("root", "root is an account of the system (uid 0): runs use accounts from uid 1000"),
        ("daemon", "daemon is an account of the system (uid 1)"),
        ("nobody", "nobody may not log in on this machine"),
    ):
        cause = cause_of(warm, attempt_of(name, tmp_path, "echo ran"))
        assert cause["message"].startswith(f"n0 cannot run it as the system user {name}: {reason}")
    first, second = accounts
    kept = tmp_path / "kept"
    assert warm.run(attempt_of(first.pw_name, tmp_path, "true", artifacts=kept))["outcome"] == "completed"
    cause = cause_of(warm, attempt_of(second.pw_name, tmp_path, "true", artifacts=kept))
    assert f"{kept} belongs to another user (uid {first.pw_uid})" in cause["message"]
    strict = write_attempt(
        tmp_path, [worker("true")], runs_as={"name": first.pw_name, "least_uid": first.pw_uid + 1}
    )
    assert "is an account of the system" in cause_of(warm, strict)["message"]


def test_n15_a_run_in_an_image_is_refused_on_the_node(
    warm: Warm, user: pwd.struct_passwd, tmp_path: Path
) -> None:
    attempt = attempt_of(user.pw_name, tmp_path, "true", container={"image": "alpine"})
    assert "a run in an image cannot run as a system user" in cause_of(warm, attempt)["message"]


def test_n15_without_the_right_nothing_becomes_another_user(user: pwd.struct_passwd) -> None:
    """N15: a server that is not root is refused, and does not continue as itself."""
    found = system_users.find(user.pw_name)

    def act(say: int) -> None:
        os.setuid(65534)
        for attempt in (lambda: system_users.find(user.pw_name), lambda: system_users.become(found)):
            try:
                attempt()
                os.write(say, b"it went on\n")
            except (system_users.Refused, PermissionError) as problem:
                os.write(say, f"{type(problem).__name__}: {problem}\n".encode())

    pid, said = handles.fork_to_reply(act)
    os.waitpid(pid, 0)
    assert said.decode().splitlines() == [
        "Refused: only root can start processes of another system user",
        "PermissionError: [Errno 1] Operation not permitted",
    ]


def test_n15_a_sidecar_sees_its_lease_where_its_user_may_not_pass(
    user: pwd.struct_passwd, tmp_path: Path
) -> None:
    """N15: on a Ray the lease is below a directory of root; one that is not seen would expire."""
    (closed := tmp_path / "closed").mkdir(mode=0o700)
    node, part = AttemptPaths(str(closed)).node("n0"), NodeLaunch("n0", 0, ())
    settings = NodeSettings(lease_s=100.0)
    document = Launch("a.1", number=1, token="t", nodes=(part,), settings=settings)
    Path(node.lease).parent.mkdir(parents=True)
    Path(node.lease).touch()
    renewed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - 50 * 10**9
    os.utime(node.lease, ns=(renewed_ns, renewed_ns))

    def act(say: int) -> None:
        lease = Lease(document, part, node)
        system_users.act_as(system_users.find(user.pw_name), as_runner=False)
        os.write(say, str(lease.left_s()).encode())

    pid, said = handles.fork_to_reply(act)
    os.waitpid(pid, 0)
    assert 0 < float(said) <= 50

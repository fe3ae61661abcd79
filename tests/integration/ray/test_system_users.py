"""Where agents of a Ray cannot start runs as system users, none is started as another user (N15)."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_harness import Work, ended
from ray_harness import RayHarness, StandInRay
from system_users import as_user, needs_root, two_users
from tarmac.model.errors import InvalidInput, Refused
from tarmac.model.progress import Outcome
from tarmac.node.attempt.document import Launch, RunsAs

pytestmark = needs_root

PYTHON = "/usr/bin/python3"
"""Any user may run it."""


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    with two_users() as found:
        yield found[0]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RayHarness]:
    made = RayHarness(tmp_path / "engine")
    yield made
    made.close()


def launch_of(harness: RayHarness, user: pwd.struct_passwd, *, nodes: int = 2) -> Launch:
    launch = harness.launch(Work(), nodes=nodes)
    placed = zip(launch.nodes, harness.engine.nodes(), strict=True)
    parts = tuple(part._replace(node=node.name, address=node.address) for part, node in placed)
    return launch._replace(runs_as=RunsAs(user.pw_name), nodes=parts)


@pytest.fixture
def unprivileged(user: pwd.struct_passwd) -> Iterator[RayHarness]:
    """The engine over agents of a user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        (far := Path(name) / "engine" / "far").mkdir(parents=True)
        os.chown(far, user.pw_uid, user.pw_gid)
        ray = StandInRay(sent=True, python=(*as_user(user), PYTHON))
        made = RayHarness(Path(name) / "engine", ray=ray, fresh=True)
        made.reopen(guarded=True)
        yield made
        made.close()
        for program in ("pkill", "pidwait"):  # what an agent leaves for a moment keeps its account in use
            subprocess.run([program, "-u", str(user.pw_uid)], check=False)


def test_n15_agents_that_are_not_root_refuse(unprivileged: RayHarness, user: pwd.struct_passwd) -> None:
    """N15: at the submission, with the node; runs of no system user run there as before."""
    engine = unprivileged.engine
    name = engine.nodes()[0].name
    reason = rf"{name}: its agent is not root \(uid {user.pw_uid}\)"
    with pytest.raises(Refused, match=f"as the system user {user.pw_name} on cluster local: {reason}"):
        engine.check_system_user(user.pw_name)
    launch = launch_of(unprivileged, user)
    with pytest.raises(InvalidInput, match=f"{name} cannot run it as .*: its agent is not root"):
        engine.submit(engine.render(launch))
    assert not list((unprivileged.home / "far").glob("runs/*"))
    engine.submit(engine.render(launch._replace(runs_as=None)))
    assert unprivileged.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED


def test_n15_a_directory_of_runs_that_others_may_enter_is_refused(
    harness: RayHarness, user: pwd.struct_passwd
) -> None:
    """N15: its mode keeps the runs of users apart; a link may lead elsewhere at any moment."""
    harness.reopen(guarded=True)
    harness.engine.check_system_user(user.pw_name)
    far = harness.home / "far"
    request = harness.engine.render(launch_of(harness, user))
    harness.home.chmod(0o777)
    with pytest.raises(InvalidInput, match=f"users can change {harness.home}, which is above"):
        harness.engine.submit(request)
    harness.home.chmod(0o1777)
    far.chmod(0o755)
    with pytest.raises(InvalidInput, match=f"{far} must be a directory of root with mode 0700"):
        harness.engine.submit(request)
    far.rename(harness.home / "elsewhere")
    far.symlink_to(harness.home / "elsewhere")
    with pytest.raises(InvalidInput, match=f"{far} must be a directory of root with mode 0700"):
        harness.engine.submit(request)
    harness.reopen(guarded=True)
    with pytest.raises(Refused, match=f"{far} must be a directory of root with mode 0700"):
        harness.engine.check_system_user(user.pw_name)


def test_n15_without_a_token_of_the_ray_no_run_is_that_of_a_system_user(
    harness: RayHarness, user: pwd.struct_passwd
) -> None:
    """N15: also one that was submitted before the token was removed."""
    with pytest.raises(Refused, match="its Ray has no token"):
        harness.engine.check_system_user(user.pw_name)
    with pytest.raises(InvalidInput, match="no run runs as the system user"):
        harness.engine.render(launch_of(harness, user))

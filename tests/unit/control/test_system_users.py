"""The system user of a run (N15): by the submitter's account, never by the run, on engines that can."""

from __future__ import annotations

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes, spec
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.codec import replace
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Environment, RunSpec, Target

FAR = "far"


class UsersEngine(SimEngine):
    """It can run runs as any user but one."""

    def check_system_user(self, name: str) -> None:
        if name == "gone":
            raise Refused("this machine has no system user gone")


def plane_of(system_user: str | None) -> ControlPlane:
    clock = VirtualClock(1_000_000.0)
    near = UsersEngine(clock, nodes(1, 4), behaviour=lambda _launch: Behaviour())
    far = SimEngine(clock, nodes(1, 4, cluster=FAR), behaviour=lambda _launch: Behaviour())
    return ControlPlane(
        ControlState(
            store=ScratchStore(),
            engine=near,
            engines={FAR: far},
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
            system_user_of={ADA.user: system_user}.__getitem__,
        )
    )


def submit(
    plane: ControlPlane, *, cluster: str | None = "local", wanted: RunSpec | None = None
) -> str | None:
    wanted = replace(wanted or spec(slots=1), target=Target(cluster=cluster))
    return plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.spec.system_user


def test_n15_the_account_of_the_submitter_decides() -> None:
    """N15: no spec names the user of its processes itself."""
    assert submit(plane_of("ann")) == "ann"
    other = replace(spec(slots=1), system_user="bob")
    assert submit(plane_of("ann"), wanted=other) == "ann"
    assert submit(plane_of(None), wanted=other) is None


def test_n15_an_engine_that_cannot_refuses_the_run_at_its_submission() -> None:
    """N15: with the reason; and so does one that could get it, if the run names no cluster."""
    for cluster in (FAR, None):
        with pytest.raises(
            Refused, match="runs of your account run as the system user ann, and runs on cluster far"
        ):
            submit(plane_of("ann"), cluster=cluster)
    assert submit(plane_of(None), cluster=FAR) is None
    with pytest.raises(Refused, match="no system user gone"):
        submit(plane_of("gone"))


def test_n15_rented_machines_are_asked_for_the_user_once_they_exist() -> None:
    """N15: not the engine of the server, on which a burst run never is."""
    burst = replace(spec(slots=1), mode=Mode.BURST)
    with pytest.raises(Refused, match="there are no shapes"):
        submit(plane_of("gone"), cluster=None, wanted=burst)


def test_n15_a_dry_run_says_the_same() -> None:
    plane = plane_of("ann")
    wanted = replace(spec(slots=1), target=Target(cluster="local"))
    shown = plane.dry_run(Submission(spec=wanted, actor=ADA))
    assert shown.launch is not None
    assert shown.launch.runs_as is not None
    assert shown.launch.runs_as.name == "ann"


def test_n15_no_run_is_in_an_image_and_of_a_system_user() -> None:
    wanted = replace(spec(slots=1), environment=Environment(image="alpine"))
    with pytest.raises(Refused, match="no run does both"):
        submit(plane_of("ann"), wanted=wanted)

"""Limits and credits in the control plane: refused at submission, waiting, charged exactly once."""

from __future__ import annotations

from contextlib import suppress

import pytest

from actors import ADA as ADMIN
from actors import member
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.account_operations import GrantBody, LedgerQuery, LimitBody
from tarmac.control.service import Submission
from tarmac.model.actor import Actor
from tarmac.model.array import read_array
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.people.limits import EntryKind, Limit, LimitKind
from tarmac.model.run import Run
from tarmac.model.spec import Target

ADA, BOB = member("ada"), member("bob")
SITE = "site"
PAIR = read_array("0-1")
HOUR_S = 3600.0


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=HOUR_S),
        cluster=nodes(2, 4),
        batches={SITE: nodes(2, 8, cluster=SITE)},
    )


def limit(simulation: Simulation, **limits: object) -> Limit:
    return simulation.server.plane.limits.set(ADMIN, LimitBody(**limits))  # type: ignore[arg-type]


def grant(simulation: Simulation, amount: float, key: str, account: str = "user:ada", **more: object) -> None:
    body = GrantBody(account=account, credits=amount, key=key, **more)  # type: ignore[arg-type]
    simulation.server.plane.limits.grant(ADMIN, body)


def submit(simulation: Simulation, actor: Actor = ADA, **asked: object) -> Run:
    return simulation.server.plane.submit([Submission(spec=spec(**asked), actor=actor)])[0].run


def go_on(simulation: Simulation, seconds: float = 3.0) -> None:
    for _ in range(3):
        simulation.turn_all()
        simulation.clock.advance(seconds / 3)
    simulation.turn_all()


def state(simulation: Simulation, run: Run) -> RunState:
    found = simulation.store.run(run.id)
    assert found is not None
    return found.state


@pytest.mark.parametrize(
    ("limits", "asked", "said", "option"),
    [
        (
            {"user": "ada", "largest": 2},
            {"slots": 3},
            "ada may have 2 slots; this one needs 3",
            "largest",
        ),
        (
            {"user": "*", "largest": 2},
            {"slots": 3},
            "user ada may have 2 slots",
            "user ada --largest",
        ),
        ({"user": "ada", "slots": 2}, {"slots": 3}, "runs of user ada may hold 2 slots", "slots"),
        ({"project": "*", "longest_s": 7200.0}, {}, "a time limit of 2 h; this one has none", "longest"),
        ({"user": "ada", "longest_s": 7200.0}, {"time_limit_s": 7201.0}, "this one has 2.00028 h", "longest"),
        (
            {"pool": "local/default", "largest": 1},
            {"slots": 2, "target": Target(pool="default")},
            "a run of pool local/default",
            "largest",
        ),
        ({"user": "ada", "queued": 1}, {"array": PAIR}, "1 runs of user ada may wait", "queued"),
    ],
)
def test_n16_what_is_too_large_too_long_or_too_many_is_refused(
    simulation: Simulation, limits: dict[str, object], asked: dict[str, object], said: str, option: str
) -> None:
    """The refusal names the limit, and the command of an administrator that raises it."""
    limit(simulation, **limits)
    with pytest.raises(Refused) as refused:
        submit(simulation, **asked)
    assert said in refused.value.message
    assert "An administrator can raise the limit: tarmac limits set --" in str(refused.value.hint)
    assert f"{option}" in str(refused.value.hint)
    scope = {name: value for name, value in limits.items() if name in ("user", "project", "pool")}
    limit(simulation, **scope, unset=[LimitKind(name) for name in limits.keys() - scope.keys()])
    submit(simulation, **asked)


def test_n16_queued_runs_are_counted_while_they_wait(simulation: Simulation) -> None:
    limit(simulation, user="*", queued=2)
    first = submit(simulation, slots=8)
    go_on(simulation)
    assert state(simulation, first) is RunState.RUNNING
    submission = Submission(spec=spec(slots=8), actor=ADA, idempotency_key="again")
    kept = simulation.server.plane.submit([submission])[0].run
    submit(simulation, slots=8)
    with pytest.raises(Refused, match="2 runs of user ada may wait, and 2 do"):
        submit(simulation, slots=8)
    assert simulation.server.plane.submit([submission])[0].run.id == kept.id, "a repeated request is known"
    submit(simulation, BOB, slots=8)


def test_n16_slots_at_once_make_a_run_wait_and_why_names_the_limit(simulation: Simulation) -> None:
    limit(simulation, user="ada", slots=4)
    first, second, other = submit(simulation, slots=3), submit(simulation, slots=2), submit(simulation, BOB)
    go_on(simulation)
    assert [state(simulation, run) for run in (first, second, other)] == ["running", "queued", "running"]
    why = simulation.server.plane.why(ADA, second.id)
    assert why.headline == "queued: runs of user ada may hold 4 slots and hold 3; this one needs 2"
    assert (
        "An administrator can raise the limit: tarmac limits set --user ada --slots MORE" in why.unblocked_by
    )
    assert (
        simulation.server.plane.dry_run(Submission(spec=spec(slots=2), actor=ADA)).reasons[0].code == "limit"
    )
    limit(simulation, user="ada", slots=5)
    go_on(simulation)
    assert state(simulation, second) is RunState.RUNNING


def test_n16_a_cluster_with_its_own_queue_is_given_no_more(simulation: Simulation) -> None:
    """Slots there and slots here count together, also after a restart of the server."""
    limit(simulation, user="ada", slots=5)
    there = Target(cluster=SITE)
    first, second = submit(simulation, slots=4, target=there), submit(simulation, slots=2, target=there)
    go_on(simulation)
    assert [state(simulation, run) for run in (first, second)] == ["running", "queued"]
    why = simulation.server.plane.why(ADA, second.id)
    assert why.headline.startswith("queued: runs of user ada may hold 5 slots and hold 4; this one needs 2.")
    here = submit(simulation, slots=2)
    simulation.start()
    go_on(simulation)
    assert [state(simulation, run) for run in (second, here)] == ["queued", "queued"]
    small = submit(simulation, slots=1)
    go_on(simulation)
    assert state(simulation, small) is RunState.RUNNING


def test_n16_slot_hours_count_by_the_calendar_month(simulation: Simulation) -> None:
    simulation.clock.advance_to(15 * 86_400.0)  # the middle of January
    limit(simulation, project="*", slot_hours=3.5)
    first = submit(simulation, slots=4)
    go_on(simulation, 2 * HOUR_S)
    assert state(simulation, first) is RunState.ENDED, "a running one is not ended"
    second = submit(simulation, slots=1)
    go_on(simulation)
    assert state(simulation, second) is RunState.QUEUED
    why = simulation.server.plane.why(ADA, second.id)
    assert "project default may use 3.5 slot-hours a month and have used 4.0" in why.headline
    assert "tarmac limits set --project default --slot-hours MORE" in why.unblocked_by
    assert why.estimate is None
    simulation.start()
    go_on(simulation)
    assert state(simulation, second) is RunState.QUEUED, "a fresh server knows the usage before it plans"
    simulation.clock.advance_to(31 * 86_400.0 + 60.0)
    go_on(simulation)
    assert state(simulation, second) is RunState.RUNNING, "it is February"


def test_limits_are_merged_and_their_mistakes_named(simulation: Simulation) -> None:
    limit(simulation, user="ada", slots=4, queued=7, rent_budget=100.0)
    merged = limit(simulation, user="ada", slots=5, unset=[LimitKind.QUEUED])
    assert merged == Limit(user="ada", slots=5, rent_budget=100.0)
    assert limit(simulation, pool="default", slots=1).pool == "local/default"
    for wrong, error in (
        ({"slots": 1}, InvalidInput),
        ({"user": "bob", "unset": [LimitKind.SLOTS]}, NotFound),
    ):
        with pytest.raises(error):
            limit(simulation, **wrong)
    plane = simulation.server.plane
    for forbidden in (
        lambda: plane.limits.set(ADA, LimitBody(user="ada", slots=99)),
        lambda: plane.limits.grant(ADA, GrantBody(account="user:ada", credits=9.0, key="k")),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    with pytest.raises(InvalidInput):
        grant(simulation, 1.0, "w", correction=True)
    with pytest.raises(InvalidInput):
        grant(simulation, -1.0, "w")


def ledger(simulation: Simulation, account: str | None = None) -> list[tuple[str, str, float]]:
    found = simulation.server.plane.limits.ledger(ADMIN, LedgerQuery(limit=10_000, account=account))
    return [(each.account, each.key, each.slot_s) for each in found if each.kind is EntryKind.CHARGE]


def test_i13_user_and_project_are_charged_once_whatever_crashes(simulation: Simulation) -> None:
    """A crash before or after each write of a charge, and a second server, repeat and lose nothing."""
    grant(simulation, 100.0, "a")
    grant(simulation, 100.0, "a")
    grant(simulation, 100.0, "b", account="project:default")
    run = submit(simulation, slots=4)
    store = simulation.store
    for hurt in (store.fail_before, store.fail_after) * 8:
        hurt(store.writes + 1, RuntimeError("the server is killed here"))
        simulation.clock.advance(300.0)
        for server in (simulation.server, simulation.another(), simulation.start()):
            with suppress(RuntimeError):
                server.turn("schedule")
    store.fail_before(store.writes + 1, RuntimeError("none is left over"))
    with suppress(RuntimeError):
        simulation.turn_all()
    simulation.start()
    go_on(simulation, HOUR_S)
    found = simulation.store.run(run.id)
    assert found is not None
    assert found.state is RunState.ENDED
    for account in ("user:ada", "project:default"):
        charges = ledger(simulation, account)
        assert len({key for _, key, _ in charges}) == len(charges) > 3
        assert sum(slot_s for *_, slot_s in charges) == pytest.approx(found.attained_slot_s, abs=1e-6)
    balances = {each.account: each.balance for each in simulation.server.plane.limits.accounts(ADMIN)}
    assert balances == pytest.approx(dict.fromkeys(balances, 100.0 - found.attained_slot_s / HOUR_S))


def test_i13_what_was_used_before_the_first_grant_is_not_charged(simulation: Simulation) -> None:
    run = submit(simulation, slots=2)
    go_on(simulation, HOUR_S / 2)
    grant(simulation, 50.0, "a")
    since = simulation.clock.now()
    go_on(simulation, HOUR_S)
    used = simulation.server.plane.usage.used_slots(ADMIN, since, None)
    assert sum(slot_s for *_, slot_s in ledger(simulation)) == pytest.approx(used[0].slot_s, abs=1.0)
    assert {key.partition(".")[0] for _, key, _ in ledger(simulation)} == {run.id}


def test_i13_a_correction_pays_back(simulation: Simulation) -> None:
    grant(simulation, 10.0, "a")
    grant(simulation, -10.0, "fix", correction=True)
    run = submit(simulation, slots=1)
    go_on(simulation)
    assert state(simulation, run) is RunState.QUEUED
    grant(simulation, 4.0, "again", correction=True, note="a broken node")
    go_on(simulation)
    assert state(simulation, run) is RunState.RUNNING


def test_i13_an_end_that_is_reported_late_is_charged(simulation: Simulation) -> None:
    """A cluster is silent for hours: what ended there meanwhile is charged up to its end."""
    grant(simulation, 100.0, "a")
    run = submit(simulation, slots=2, target=Target(cluster=SITE))
    go_on(simulation)
    simulation.batches[SITE].unreachable = True
    for _ in range(20):
        go_on(simulation, HOUR_S / 2)
    assert state(simulation, run) is RunState.RUNNING
    simulation.batches[SITE].unreachable = False
    go_on(simulation, 60.0)
    found = simulation.store.run(run.id)
    assert found is not None
    assert found.state is RunState.ENDED
    assert found.attained_slot_s < 3 * HOUR_S
    go_on(simulation, 60.0)
    assert sum(slot_s for *_, slot_s in ledger(simulation)) == pytest.approx(found.attained_slot_s, abs=1e-6)

"""A month of three users with credits, under virtual time: warned, used up, refilled."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors import ADA as ADMIN
from actors import member
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.limit_operations import GrantBody, LedgerQuery
from tarmac.control.service import Submission
from tarmac.model.actor import Actor
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Channel, Occasion, Receiver, Subscription
from tarmac.model.people.limits import CreditEntry, EntryKind
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.run import Run

HOUR_S = 3600.0
DAYS = 30
ADA, BOB, EVE = member("ada"), member("bob"), member("eve")
MAIL = Subscription(
    receiver=Receiver(channel=Channel.EMAIL, address="ada@lab.example"), on=(Occasion.CREDITS,)
)


class Month:
    """A cluster of eight slots, with two credits for a slot-hour."""

    def __init__(self) -> None:
        self.simulation = Simulation(
            behaviour=lambda _launch: Behaviour(duration_s=5 * HOUR_S + 7.25),
            cluster=nodes(2, 4),
            pools=(Pool(cluster=LOCAL_CLUSTER, credits_per_slot_hour=2.0),),
        )
        self.began_at = self.simulation.clock.now()
        self.grants = 0

    def grant(self, amount: float, user: str) -> None:
        self.grants += 1
        self.simulation.server.plane.limits.grant(
            ADMIN, GrantBody(credits=amount, key=str(self.grants), account=f"user:{user}")
        )

    def submit(self, actor: Actor, slots: int = 1) -> Run:
        asked = spec(slots=slots, notify=(MAIL,) if actor is ADA else ())
        return self.simulation.server.plane.submit([Submission(spec=asked, actor=actor)])[0].run

    def go_on(self, hours: float) -> None:
        clock = self.simulation.clock
        until = clock.now() + hours * HOUR_S
        while clock.now() < until:
            self.simulation.turn_all()
            upcoming = self.simulation.upcoming()
            clock.advance_to(min(until, clock.now() + 600.0, max(upcoming or until, clock.now() + 1.0)))
        self.simulation.turn_all()

    def runs(self, user: str) -> list[Run]:
        return [run for run in self.simulation.store._runs.values() if run.user == user]

    def entries(self, user: str) -> list[CreditEntry]:
        return self.simulation.server.plane.limits.ledger(
            ADMIN, LedgerQuery(account=f"user:{user}", limit=10_000)
        )

    def used_slot_s(self) -> Mapping[str, float]:
        found = self.simulation.server.plane.usage.used_slots(ADMIN, self.began_at, None)
        return {each.user: each.slot_s for each in found}

    def balance(self, user: str) -> float:
        accounts = self.simulation.server.plane.limits.accounts(ADMIN)
        return next(each.balance for each in accounts if each.account == f"user:{user}")


def test_i13_a_month_of_three_users_agrees_with_usage_to_the_second() -> None:
    """Ada is warned, used up and refilled; Bob has enough; Eve was granted nothing, and so has no limit."""
    month = Month()
    month.grant(100.0, user="ada")
    month.grant(10_000.0, user="bob")
    for day in range(DAYS):
        if day == 15:
            waiting = [run for run in month.runs("ada") if run.state is RunState.QUEUED]
            assert waiting, "what would exceed the credits waits"
            why = month.simulation.server.plane.why(ADMIN, waiting[0].id)
            assert "the credits of user ada are used up" in why.headline
            assert "tarmac credits grant AMOUNT --user ada" in why.unblocked_by
            month.grant(600.0, user="ada")
            month.go_on(1.0)
            started = month.simulation.store.run(waiting[0].id)
            assert started is not None
            assert started.attempt == 1, "a refill lets it start"
        for actor in (ADA, BOB, EVE):
            month.submit(actor, slots=2 if actor is ADA else 1)
        month.go_on(24.0)
    month.go_on(24.0)
    used = month.used_slot_s()
    for user in ("ada", "bob"):
        charged = sum(each.slot_s for each in month.entries(user))
        assert charged == pytest.approx(used[user], abs=1.0)
        granted = sum(each.amount for each in month.entries(user) if each.kind is EntryKind.GRANT)
        assert month.balance(user) == pytest.approx(granted - 2.0 * used[user] / HOUR_S, abs=0.001)
    assert month.entries("eve") == []
    assert used["eve"] == pytest.approx(DAYS * (5 * HOUR_S + 7.25), abs=DAYS * 2.0)

    exhausted = [
        run for run in month.runs("ada") if run.cause and run.cause.code is CauseCode.CREDITS_EXHAUSTED
    ]
    assert [run.outcome for run in exhausted] == [Outcome.STOPPED]
    assert "the credits of user ada are used up" in str(exhausted[0].cause)
    assert not [
        run for user in ("bob", "eve") for run in month.runs(user) if run.outcome is not Outcome.COMPLETED
    ]

    warnings = [each for each in month.entries("ada") if each.kind is EntryKind.WARNING]
    assert len(warnings) == 2, "one for each grant that was nearly used"
    messages = [
        each for run in month.runs("ada") for each in month.simulation.store.notifications.of_run(run.id)
    ]
    assert [(each.occasion, each.about["account"]) for each in messages] == [
        (Occasion.CREDITS, "user:ada")
    ] * 2
    assert 80.0 <= messages[0].about["used"] <= 81.0

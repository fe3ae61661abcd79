"""A month of three users with credits, under virtual time: warned, used up, refilled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from actors import ADA as ADMIN
from actors import member
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.account_operations import GrantBody, LedgerQuery
from tarmac.control.service import Submission
from tarmac.model.actor import Actor
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Channel, Occasion, Receiver, Subscription
from tarmac.model.people.limits import CreditEntry, EntryKind
from tarmac.model.people.usage import DAY_S, Period
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

    def used_on_days(self, user: str) -> Mapping[float, float]:
        found = self.simulation.server.plane.usage.used_slots(ADMIN, None, None, Period.DAY)
        return {each.begin_at: each.slot_s for each in found if each.user == user and each.begin_at}

    def charged_on_days(self, user: str) -> Mapping[float, float]:
        days = Counter[float]()
        for each in self.entries(user):
            if each.kind is EntryKind.CHARGE:
                days[(each.at - 1e-6) // DAY_S * DAY_S] += each.slot_s
        return days

    def balance(self, user: str) -> float:
        accounts = self.simulation.server.plane.limits.accounts(ADMIN)
        return next(each.balance for each in accounts if each.account == f"user:{user}")


@pytest.mark.heavy
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


def test_i13_the_charges_of_each_day_agree_with_its_usage_to_the_second() -> None:
    """Runs begin in the evening (UTC) and end after midnight; usage by month, and of a live run, agrees."""
    month = Month()
    month.grant(10_000.0, user="ada")
    month.go_on((DAY_S - month.began_at % DAY_S) / HOUR_S - 2.0)
    for _ in range(5):
        month.submit(ADA, slots=2)
        month.go_on(24.0)
    days = month.used_on_days("ada")
    assert sorted(days.values()) == pytest.approx([4 * HOUR_S, 6 * HOUR_S] + [10 * HOUR_S] * 4, abs=20)
    assert month.charged_on_days("ada") == pytest.approx(days, abs=1.0)

    month.submit(ADA, slots=2)
    month.go_on(4.0)
    day = month.simulation.clock.now() // DAY_S * DAY_S
    assert month.used_on_days("ada")[day] == pytest.approx(2 * 2 * HOUR_S, abs=20.0), (
        "a live run counts until now"
    )
    assert month.charged_on_days("ada")[day - DAY_S] == pytest.approx(
        month.used_on_days("ada")[day - DAY_S], abs=1
    )
    plane = month.simulation.server.plane
    (whole,) = plane.usage.used_slots(ADMIN, None, None, Period.MONTH)
    assert whole.slot_s == pytest.approx(sum(month.used_on_days("ada").values()))
    assert (whole.begin_at, whole.runs, whole.attempts) == (0.0, 6, 6)
    noon = day - DAY_S / 2
    parts = [plane.usage.used_slots(ADMIN, *span, Period.DAY) for span in ((None, noon), (noon, None))]
    assert sum(each.slot_s for part in parts for each in part) == pytest.approx(whole.slot_s)


def test_i13_n18_a_person_is_warned_of_credits_by_a_subscription_of_their_own() -> None:
    month = Month()
    month.grant(10.0, user="bob")
    month.simulation.store.notifications.subscribe("bob", [MAIL])
    for actor in (BOB, EVE):
        month.submit(actor)
    month.go_on(5.0)
    messages = [
        (run.user, each.occasion)
        for run in month.simulation.store._runs.values()
        for each in month.simulation.store.notifications.of_run(run.id)
    ]
    assert messages == [("bob", Occasion.CREDITS)]

"""Nodes reserved for a time (I13): who starts there, who leaves, and what a plan and `why` say of it."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW, candidate, gang, holding, node, nodes, replicas, snapshot, started
from living import Living
from tarmac.model.cluster import Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.reservations import NodeReservation
from tarmac.model.resources import ReasonCode
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Ledger, PreemptionReason, Snapshot, Waiting, explain, plan

HOUR_S = 3600.0


def reservation(name="maint", begin=HOUR_S, end=2 * HOUR_S, **changes):
    return NodeReservation(name=name, begin_at=NOW + begin, end_at=NOW + end, at=NOW - 60, **changes)


def reserved(name, *reservations, slots=8, **changes):
    return node(name, slots, reservations=reservations, **changes)


def starts(where, *queue, at=0.0, pools=(), holdings=()):
    facts = Snapshot(pools=pools, nodes=tuple(where), queue=queue, holdings=holdings)
    return started(plan(facts, NOW + at))


class TestPlaces:
    @pytest.mark.parametrize("request_of", [gang, lambda slots: replicas(1, slots)])
    def test_only_runs_that_end_before_the_begin_start_on_the_nodes(self, request_of):
        where = [reserved("n1", reservation())]
        short = candidate("short", request_of(4), time_limit_s=HOUR_S)
        long = candidate("long", request_of(4), time_limit_s=HOUR_S + 1)
        unlimited = candidate("unlimited", request_of(4))
        assert starts(where, unlimited, long, short) == ["short"]
        assert starts(where, unlimited, long, short, at=HOUR_S) == []
        assert starts(where, unlimited, long, at=2 * HOUR_S) == ["long", "unlimited"]

    def test_its_users_and_projects_start_there_at_any_time(self):
        where = [reserved("n1", reservation(begin=0, users=("ada",), projects=("vision",)), slots=4)]
        ada = candidate("ada", gang(1))
        vision = candidate("vision", gang(1), owner="bob", project="vision")
        other = candidate("other", gang(1), owner="bob")
        assert starts(where, other, ada, vision) == ["ada", "vision"]

    def test_others_use_the_nodes_beside(self):
        where = [reserved("n1", reservation(begin=0)), node("n2")]
        assert starts(where, candidate("a", gang(8)), candidate("b", gang(8))) == ["a"]

    def test_a_run_without_slots_does_not_start_there_either(self):
        where = [reserved("n1", reservation(begin=0))]
        assert starts(where, candidate("r1", replicas(1, 0))) == []
        both = [*where, node("n2")]
        (placement,) = plan(snapshot(both, [candidate("r1", replicas(1, 0))]), NOW).placements
        assert placement.allocation.nodes == ("n2",)

    def test_a_named_host_does_not_lead_round_it(self):
        where = [reserved("n1", reservation(begin=0)), node("n2")]
        assert starts(where, candidate("r1", gang(1), target=Target(hostnames=("n1",)))) == []

    def test_of_two_reservations_the_next_one_counts_that_keeps_a_run_out(self):
        ours = reservation("ours", begin=0, end=HOUR_S, users=("ada",))
        theirs = reservation("theirs", begin=2 * HOUR_S, end=3 * HOUR_S, users=("bob",))
        where = [reserved("n1", ours, theirs)]
        assert starts(where, candidate("r1", gang(8), time_limit_s=2 * HOUR_S)) == ["r1"]
        assert starts(where, candidate("r1", gang(8), time_limit_s=3 * HOUR_S)) == []
        bobs = candidate("r1", gang(8), owner="bob", time_limit_s=3 * HOUR_S)
        assert starts(where, bobs) == []
        assert starts(where, bobs, at=HOUR_S) == ["r1"]

    def test_a_run_may_have_nodes_with_and_without(self):
        where = [reserved("n1", reservation(begin=0, users=("ada",))), node("n2")]
        assert starts(where, candidate("r1", gang(16))) == ["r1"]
        assert starts(where, candidate("r1", gang(16), owner="bob")) == []

    def test_a_run_that_may_not_wait_is_refused_with_the_reservation(self):
        where = [reserved("n1", reservation(begin=0, reason="new disks"))]
        busy = candidate("r1", gang(1), queueing=Queueing.FAIL_IF_BUSY)
        (refusal,) = plan(snapshot(where, [busy]), NOW).refusals
        assert refusal.reasons[0].code is ReasonCode.NODE_RESERVED
        assert "new disks" in refusal.reasons[0].text

    def test_nodes_are_kept_for_a_blocked_run_although_a_reservation_is_far(self):
        """A distant maintenance of all nodes does not end the protection of a wide run."""
        where = [reserved(each, reservation(begin=100 * HOUR_S, end=101 * HOUR_S)) for each in ("n1", "n2")]
        busy = holding("h1", {"n1": range(8)}, time_limit_s=HOUR_S, started_at=NOW)
        wide = candidate("wide", gang(16), time_limit_s=HOUR_S, submitted_at=NOW - 9)
        later = candidate("later", gang(8), time_limit_s=2 * HOUR_S)
        assert starts(where, wide, later, holdings=(busy,)) == []
        assert starts(where, wide, replace(later, time_limit_s=0.5 * HOUR_S), holdings=(busy,)) == ["later"]

    def test_nothing_waits_for_a_blocked_run_that_could_not_end_in_time(self):
        where = [reserved(each, reservation(begin=HOUR_S)) for each in ("n1", "n2")]
        busy = holding("h1", {"n1": range(8)}, time_limit_s=HOUR_S, started_at=NOW)
        wide = candidate("wide", gang(16), time_limit_s=HOUR_S, submitted_at=NOW - 9)
        later = candidate("later", gang(8), time_limit_s=HOUR_S)
        assert starts(where, wide, later, holdings=(busy,)) == ["later"]


class TestPreemption:
    def test_a_run_that_can_be_preempted_starts_before_and_leaves_at_the_begin(self):
        where = [reserved("n1", reservation())]
        run = candidate("r1", gang(8), mode=Mode.INTERRUPTIBLE)
        facts = snapshot(where, holdings=[holding("r1", {"n1": range(8)}, mode=Mode.INTERRUPTIBLE)])
        guaranteed_s = Pool(cluster="local").guaranteed_s
        first = Ledger(snapshot(where, [run])).plan(NOW + HOUR_S - guaranteed_s)
        assert first.shares or started(first) == ["r1"]
        batch = candidate("r2", gang(8))
        rules = (Pool(cluster="local", preemption=True),)
        assert starts(where, batch, pools=rules, at=HOUR_S - guaranteed_s) == ["r2"]
        assert starts(where, batch, pools=rules, at=HOUR_S - guaranteed_s + 1) == []
        assert plan(facts, NOW + HOUR_S - 1).preemptions == ()
        (leaves,) = plan(facts, NOW + HOUR_S).preemptions
        assert (leaves.run_id, leaves.reason) == ("r1", PreemptionReason.RESERVED)

    @pytest.mark.parametrize("preempt", [True, False])
    def test_others_that_are_still_there_continue_unless_it_preempts(self, preempt):
        where = [reserved("n1", reservation(begin=0, preempt=preempt, users=("bob",)))]
        there = [holding("h1", {"n1": range(4)}), holding("h2", {"n1": range(4, 8)}, owner="bob")]
        found = plan(snapshot(where, holdings=there), NOW)
        assert [each.run_id for each in found.preemptions] == ["h1"] * preempt

    def test_a_run_whose_turn_is_over_leaves_once(self):
        where = [reserved("n1", reservation(begin=0))]
        there = holding("h1", {"n1": range(4)}, mode=Mode.CYCLE, turns_left=3)
        (leaves,) = plan(snapshot(where, holdings=[there]), NOW).preemptions
        assert leaves.run_id == "h1"


class TestTime:
    def test_a_plan_wakes_at_the_begin_and_at_the_end(self):
        where = [reserved("n1", reservation())]
        ledger = Ledger(snapshot(where, [candidate("r1", gang(8))]))
        assert ledger.plan(NOW).next_at == NOW + HOUR_S
        assert ledger.plan(NOW + HOUR_S).next_at == NOW + 2 * HOUR_S
        last = ledger.plan(NOW + 2 * HOUR_S)
        assert (started(last), last.next_at) == (["r1"], None)

    def test_a_ledger_learns_of_a_reservation_and_of_its_release(self):
        run = candidate("r1", gang(8))
        ledger = Ledger(snapshot([reserved("n1", reservation(begin=0))], [run]))
        assert started(ledger.plan(NOW)) == []
        ledger.set_cluster((), nodes(1))
        assert started(ledger.plan(NOW)) == ["r1"]


class TestExplanation:
    def test_the_node_names_the_reservation_its_runs_and_its_times(self):
        where = [reserved("n3", reservation(begin=0, projects=("vision",), reason="course"))]
        answer = explain(snapshot(where, [candidate("r1", gang(1))]), "r1", NOW)
        assert isinstance(answer, Waiting)
        (reason,) = answer.reasons
        assert (reason.code, reason.node) == (ReasonCode.NODE_RESERVED, "n3")
        assert reason.text == (
            "reserved for project vision from 1970-01-12 13:46 until 1970-01-12 15:46 UTC "
            "by reservation maint (course)"
        )

    def test_a_shorter_time_limit_is_a_way_out(self):
        where = [reserved("n1", reservation())]
        answer = explain(snapshot(where, [candidate("r1", gang(1))]), "r1", NOW)
        assert isinstance(answer, Waiting)
        assert "Reservation maint ends in 2 h." in answer.unblocked_by
        assert "With a time limit of 60 min it would start at once." in answer.unblocked_by

    def test_a_run_that_would_end_in_time_is_not_told_of_it(self):
        where = [reserved("n1", reservation())]
        busy = holding("h1", {"n1": range(8)})
        waits = candidate("r1", gang(1), time_limit_s=60.0)
        answer = explain(snapshot(where, [waits], [busy]), "r1", NOW)
        assert isinstance(answer, Waiting)
        assert [reason.code for reason in answer.reasons] == [ReasonCode.BUSY]


some_submissions = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 1, 2, 4, 6, 8]),
        st.integers(0, 6000),
        st.sampled_from([20.0, 700.0, 2500.0]),
        st.sampled_from(["ada", "grace", "alan"]),
        st.sampled_from([Mode.BATCH, Mode.BATCH, Mode.INTERRUPTIBLE, Mode.CYCLE]),
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
)
some_windows = st.tuples(st.integers(0, 4000), st.integers(1, 3000), st.sampled_from([(), ("ada",)]))

LEAVE_S = 20.0


@pytest.mark.parametrize("policy", list(Policy))
@given(some_submissions, some_windows, some_windows, st.booleans())
@settings(
    max_examples=examples(40),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
def test_no_run_of_others_is_on_reserved_nodes_and_every_run_ends(
    policy, submissions, first, second, preemption
):
    """I13: others start on no reserved node and have left by its begin; all slots are used again after."""
    windows = [
        reservation("first", first[0], first[0] + first[1], users=first[2]),
        reservation("second", 8000 + second[0], 8000 + second[0] + second[1], users=second[2]),
    ]
    where = (*nodes(1, 4), reserved("n2", *windows, slots=4), reserved("n3", windows[1], slots=4))
    runs = {
        f"r{number}": candidate(
            f"r{number}",
            gang(slots) if slots else replicas(1, 0),
            owner=owner,
            mode=mode,
            time_limit_s=duration_s if limited else None,
        )
        for number, (slots, _, duration_s, owner, mode, limited) in enumerate(submissions)
    }
    coming = [
        (NOW + delay_s, run, duration_s)
        for run, (_, delay_s, duration_s, *_) in zip(runs.values(), submissions, strict=True)
    ]
    rules = Pool(cluster="local", policy=policy, preemption=preemption, guaranteed_s=300.0)
    life = Living(where, rules, coming, leave_s=LEAVE_S, doubting=True).run()
    assert len(life.ended) == len(runs)
    kept = {each.name: each.reservations for each in where}
    for stay in life.stays:
        run = runs[stay.run_id]
        leaves_late_s = LEAVE_S if preemption or run.mode is not Mode.BATCH else 0.0
        for window in (each for name in stay.nodes for each in kept[name]):
            if not window.admits(run.owner, run.project):
                before = stay.ended_at <= window.begin_at + leaves_late_s and stay.began_at < window.begin_at
                assert before or stay.began_at >= window.end_at, (stay, window)

"""What `explain` says would start a run at once does start it: the run is changed so, and a pass made."""

from __future__ import annotations

import re

from hypothesis import event, given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW
from situations import situations
from tarmac.model.cluster import NodeState
from tarmac.model.codec import replace
from tarmac.sched import Candidate, Ledger, Snapshot, Waiting, explain, plan


def changed(facts: Snapshot, run: Candidate, words: str) -> Snapshot:
    """The facts after a person did what a sentence says."""
    if found := re.fullmatch(r"It would start at once after `tarmac nodes undrain (.*)`", words):
        names = found[1].split()
        up = tuple(replace(node, state=NodeState.UP) if node.name in names else node for node in facts.nodes)
        return replace(facts, nodes=up)
    return replace(facts, queue=tuple(relaxed(run, words) if item is run else item for item in facts.queue))


def relaxed(run: Candidate, words: str) -> Candidate:
    """The run as a sentence would have it."""
    (demand,) = run.demands
    what, _, _ = words.partition(" it would start")
    kind, _, value = what.partition(" ")
    match kind, value.split():
        case "Without", ["its", "host", "names"]:
            return replace(run, target=replace(run.target, hostnames=()))
        case "Without", ["the", "hosts", "it", "keeps", "away", "from"]:
            return replace(run, target=replace(run.target, excluded=()))
        case "Without", ["shard", _]:
            return replace(run, target=replace(run.target, shard=None))
        case "Without", ["pool", _]:
            return replace(run, target=replace(run.target, pool=None))
        case "Without", ["slot", "type", _]:
            demand = replace(demand, each=replace(demand.each, slot_type=None))
        case "With", ["priority", number]:
            return replace(run, priority=int(number), position=None)
        case "With", ["a", "time", "limit", "of", number, "min"]:
            return replace(run, time_limit_s=60.0 * int(number))
        case "With", ["slots:", number]:
            demand = replace(demand, slots=int(number))
        case "With", [number, "of", "the", _, "replicas"]:
            demand = replace(demand, replicas=int(number))
        case "With", ["replicas", "of", number, *_]:
            demand = replace(demand, each=replace(demand.each, slots=int(number)))
        case _:
            raise AssertionError(words)
    return replace(run, demands=(demand,))


def promises(waiting: Waiting) -> list[str]:
    """The sentences about what would start it."""
    sentences = waiting.unblocked_by.rstrip(".").split(". ")
    return [sentence for sentence in sentences if "it would start" in sentence.lower()]


@given(st.one_of(situations(), situations(contested=True)))
@settings(max_examples=examples(250), deadline=None)
def test_what_is_said_to_start_a_run_at_once_does(facts: Snapshot):
    for run in facts.queue:
        answer = explain(facts, run.run_id, NOW)
        if not isinstance(answer, Waiting):
            continue
        assert answer.reasons
        assert answer.unblocked_by
        for sentence in promises(answer):
            event(re.sub(r"\d+", "N", sentence))
            made = plan(changed(facts, run, sentence), NOW)
            if " been preempted" in sentence:
                leaving = {item.run_id for item in made.preemptions if item.for_run_id == run.run_id}
                assert leaving, sentence
                assert all(run_id in sentence for run_id in leaving)
            else:
                assert run.run_id in {item.run_id for item in made.placements}, sentence


@given(situations(contested=True))
@settings(max_examples=examples(80), deadline=None)
def test_a_lower_priority_than_the_one_named_would_not_do(facts: Snapshot):
    for run in facts.queue:
        answer = explain(facts, run.run_id, NOW)
        if not isinstance(answer, Waiting):
            continue
        for sentence in promises(answer):
            if found := re.match(r"With priority (\d+) it would start at once", sentence):
                event("a priority is named")
                for level in range(run.priority, int(found[1])):
                    other = replace(
                        run, priority=level, position=None if level > run.priority else run.position
                    )
                    queue = tuple(other if item is run else item for item in facts.queue)
                    made = plan(replace(facts, queue=queue), NOW)
                    assert run.run_id not in {item.run_id for item in made.placements}


@given(situations())
@settings(max_examples=examples(80), deadline=None)
def test_explaining_agrees_with_planning_and_leaves_the_ledger_as_it_was(facts: Snapshot):
    made = plan(facts, NOW)
    decided = {item.run_id: item for item in (*made.placements, *made.refusals)}
    ledger = Ledger(facts)
    for run in facts.queue:
        answer = explain(ledger, run.run_id, NOW)
        if isinstance(answer, Waiting):
            assert run.run_id not in decided
        else:
            assert answer == decided[run.run_id]
        assert ledger.plan(NOW) == made
    kept = ledger.snapshot()
    assert set(kept.queue) == set(facts.queue)
    assert set(kept.holdings) == set(facts.holdings)
    assert kept.nodes == facts.nodes

"""Entities in the order of their usage: changes are applied one by one, or all are ranked anew."""

from __future__ import annotations

from random import Random

from tarmac.sched.policies.ranking import Changes, Ranking

ENTITIES = [f"u{number}" for number in range(20)]


def order(ranking):
    """The items of a ranking as a cycle reads them."""
    return list(ranking.ordered(lambda place: place[0], lambda _, place: place[0]))


def test_a_ranking_that_missed_changes_is_the_same_as_one_that_applied_each():
    """Whether it missed few or many, and whether entities came or left."""
    dice, changes, used = Random(3), Changes(), dict[str, tuple[int, int]]()

    def places(entity):
        return ((used[entity][0], (used[entity][1], entity)),) if entity in used else ()

    prompt, late = Ranking(), Ranking()
    for number in range(400):
        entity = dice.choice(ENTITIES)
        if dice.random() < 0.3:
            used.pop(entity, None)
        else:
            used[entity] = (dice.randrange(3), dice.randrange(50))
        changes.note(entity)
        prompt.refresh(used, changes, places)
        if number % 60 == 0 or number % 60 == 5:
            late.refresh(used, changes, places)
            assert order(late) == order(prompt)
            assert [entity for _, (_, entity) in order(late)] == [
                entity for _, entity in sorted((amount, entity) for entity, (_, amount) in used.items())
            ]

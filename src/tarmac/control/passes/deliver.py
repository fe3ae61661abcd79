"""Deliver: carries decisions to the engine: attempts to start, asks to pass on. Run by the deliver loop.

The record comes first, the effect after it, and the effect is idempotent: after a crash between the two
the next pass does it again, and the claim on the node sees to it that nothing starts twice.
"""

from __future__ import annotations

import logging

from tarmac.control.fleet import rehearsal_nodes
from tarmac.control.steps import ASKS
from tarmac.control.world import World
from tarmac.launch import compose
from tarmac.model.cluster import Node
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.launch import Launch
from tarmac.model.lifecycle import AttemptState
from tarmac.model.ports import OffersNodes
from tarmac.model.run import Ask, Attempt, Run

MOST_KEPT = 4096
"""How many attempts are remembered as delivered before those that are gone are forgotten."""

RETRY_AFTER_S = 1.0
"""How long an attempt is left alone after the engine could not take it."""

log = logging.getLogger(__name__)


def deliver_pass(world: World) -> None:
    """Submit every attempt that was not yet, and pass on every ask. Raises LeaseLost."""
    waiting = [(run, attempt) for run, attempt in world.undelivered() if world.starts_here(attempt)]
    if not waiting:
        return
    world.check_lease()  # a server that stood still for long may have been replaced
    now, deliveries = world.clock.now(), world.deliveries
    for run, attempt in waiting:
        if not deliveries.due(attempt.id, now):
            continue
        ask = ASKS.get(run.state)
        unborn = attempt.state is AttemptState.STARTING and not deliveries.submitted(attempt.id)
        if unborn and ask is not Ask.STOP:  # a stop alone sees to it that it is never born
            unborn = not _submit(world, run, attempt, now)
        told = ask is None or deliveries.asked(attempt.id, ask) or _ask(world, attempt, ask, now)
        if told and (ask is Ask.STOP or not unborn):
            world.note_delivered(run)
    if len(deliveries) > MOST_KEPT:
        deliveries.keep_only({attempt.id for _, attempt in world.live()})


def launch_of(world: World, run: Run, attempt: Attempt, nodes: dict[str, Node]) -> Launch:
    """The launch of an attempt; the nodes of its own rehearsal are added where they are missing."""
    known = run.spec.rehearsal is None or nodes.keys() >= set(attempt.allocation.nodes)
    if not known and isinstance(world.engine, OffersNodes):
        nodes = nodes | {node.name: node for node in rehearsal_nodes(world.engine, run)}
    return world.equip(run, attempt, compose(run, attempt, nodes))


def _submit(world: World, run: Run, attempt: Attempt, now: float) -> bool:
    """Submit the attempt; whether the engine has taken it, or never will."""
    try:
        nodes = world.node_table().by_name
        world.engine.submit(world.engine.render(launch_of(world, run, attempt, nodes)))
    except Unavailable as error:
        log.warning("attempt %s could not be started now: %s", attempt.id, error)
        world.deliveries.postpone(attempt.id, now + RETRY_AFTER_S)
        return False
    except InvalidInput as error:
        log.error("the engine refuses attempt %s: %s", attempt.id, error)
        world.deliveries.refuse(attempt.id, str(error))
    else:
        world.deliveries.note_submitted(attempt.id)
    return True


def _ask(world: World, attempt: Attempt, ask: Ask, now: float) -> bool:
    """Pass the ask on; whether the engine has it."""
    try:
        world.engine.ask(attempt.id, ask)
    except Unavailable as error:
        log.warning("attempt %s could not be asked to %s now: %s", attempt.id, ask, error)
        world.deliveries.postpone(attempt.id, now + RETRY_AFTER_S)
        return False
    world.deliveries.note_asked(attempt.id, ask)
    return True

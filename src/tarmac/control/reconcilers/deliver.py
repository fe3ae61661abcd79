"""Deliver: carries decisions to an engine: attempts to start, leave requests. Run by the engine's own loop.

The record comes first, the effect after it, and the effect is idempotent: after a crash between the two the
next pass repeats it, and the claim on the node prevents a second start.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tarmac.control.decisions.steps import ASKS
from tarmac.control.delegation import unnamed_nodes
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.node_inventory import rehearsal_nodes
from tarmac.launch.compose import compose, with_datasets
from tarmac.model.abilities import SubmitsTogether
from tarmac.model.cluster import Node
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable
from tarmac.model.lifecycle import LeaveRequest, RunState
from tarmac.model.loss import resumption_after
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch

MOST_REMEMBERED = 4096
"""The number of attempts remembered as delivered before ended ones are forgotten."""

MOST_TOGETHER = 8
"""The number of attempts that an engine starts at once, if it can."""

log = logging.getLogger(__name__)


def deliver_pass(control: ControlState, engine: AttachedEngine) -> None:
    """Submit every new attempt of this engine, and pass on every leave request. Raises LeaseLost."""
    now, deliveries = control.clock.now(), engine.deliveries
    if not engine.delivery_rest.over(now):
        return
    waiting = [(run, attempt) for run, attempt in control.undelivered(engine) if control.starts_here(attempt)]
    if not waiting:
        return
    control.check_lease()  # a server that was suspended for long may have been replaced
    nodes = control.node_table().by_name
    delivered: list[Run] = []
    if engine.together is not None:
        _submit_together(control, engine, engine.together, waiting, nodes)
    for run, attempt in waiting:
        if deliveries.not_before.get(attempt.id, now) > now:
            continue
        if not engine.delivery_rest.over(now):
            break
        ask = LeaveRequest.STOP_NOW if attempt.leave_request is LeaveRequest.STOP_NOW else ASKS.get(run.state)
        unborn = attempt.is_to_be_submitted and attempt.id not in deliveries.submitted
        if unborn and not (ask and ask.ends):  # the request to stop alone prevents its start
            unborn = not _submit(
                control, engine, attempt, partial(_start, control, engine, run, attempt, nodes)
            )
        leave_delivered = (
            ask is None
            or deliveries.leave_requests.get(attempt.id) is ask
            or _ask(control, engine, attempt, ask)
        )
        if leave_delivered and ((ask and ask.ends) or not unborn):
            delivered.append(run)
    control.note_delivered(delivered)
    if len(deliveries) > MOST_REMEMBERED:
        deliveries.keep_only({attempt.id for _, attempt in control.live_on(engine)})


def launch_of(control: ControlState, run: Run, attempt: Attempt, nodes: dict[str, Node]) -> Launch:
    """The launch of an attempt; the nodes of its own rehearsal are added if missing.

    Raises Unavailable if its cluster does not know one of its nodes, as may happen after a restart.
    """
    delegate = control.engines.of(attempt).delegate
    if delegate is not None:
        nodes = unnamed_nodes(attempt, delegate.capacity())
    elif run.spec.rehearsal is not None and not nodes.keys() >= set(attempt.allocation.nodes):
        nodes = nodes | {node.name: node for node in rehearsal_nodes(control.engines.of(attempt), run)}
    if unknown := sorted(set(attempt.allocation.nodes) - nodes.keys()):
        raise Unavailable(f"cluster {attempt.allocation.cluster} has no node {', '.join(unknown)} now")
    launch = _after_earlier(control, attempt, compose(run, attempt, nodes))
    if run.spec.datasets:  # first: a dialect may refer to them
        stored = {each.id: each.path for each in control.store.datasets() if each.server == control.server}
        paths = {name: path for name in run.spec.datasets if (path := stored.get(name)) is not None}
        launch = with_datasets(launch, paths)
    return control.apply_conventions(run, attempt, launch)


def _after_earlier(control: ControlState, attempt: Attempt, launch: Launch) -> Launch:
    """Add to a later attempt of a run its first checkpoint, and the image of the earlier attempts.

    The image stays the same even if its name has a new meaning by now.
    """
    if attempt.number == 1:
        return launch
    earlier = [each for each in control.store.attempts(attempt.run_id) if each.number < attempt.number]
    sync = launch.sync and launch.sync._replace(rejected_by=resumption_after(earlier).rejected_by)
    launch = launch._replace(sync=sync)
    if launch.container is None:
        return launch
    seen = (each.milestones.image for each in reversed(earlier))
    digest = next((image.digest for image in seen if image is not None and image.digest), None)
    return launch._replace(container=launch.container._replace(digest=digest))


def _submit_together(
    control: ControlState,
    engine: AttachedEngine,
    together: SubmitsTogether,
    waiting: Sequence[tuple[Run, Attempt]],
    nodes: dict[str, Node],
) -> None:
    """Submit what is due among these, a few attempts at a time: the first ones need not wait for all."""
    deliveries, now = engine.deliveries, control.clock.now()
    unborn = [
        (run, attempt)
        for run, attempt in waiting
        if run.state is RunState.STARTING
        and attempt.id not in deliveries.submitted
        and deliveries.not_before.get(attempt.id, now) <= now
    ]
    for at in range(0, len(unborn), MOST_TOGETHER):
        requests = []
        for run, attempt in unborn[at : at + MOST_TOGETHER]:
            with suppress(InvalidInput, Unavailable):  # submitted alone, which tells why
                request = engine.adapter.render(launch_of(control, run, attempt, nodes))
                requests.append((attempt, request))
        engine.delivery_rest.note_call(control.clock.now())
        problems = together.submit_all([request for _, request in requests])
        for (attempt, _), problem in zip(requests, problems, strict=True):
            _submit(control, engine, attempt, partial(_conclude, problem))


def _conclude(problem: TarmacError | None) -> None:
    if problem is not None:
        raise problem


def _start(
    control: ControlState, engine: AttachedEngine, run: Run, attempt: Attempt, nodes: dict[str, Node]
) -> None:
    engine.adapter.submit(engine.adapter.render(launch_of(control, run, attempt, nodes)))


def _submit(
    control: ControlState, engine: AttachedEngine, attempt: Attempt, start: Callable[[], None]
) -> bool:
    """Submit the attempt by `start`; returns whether the engine has taken it, or never will."""

    def submit() -> None:
        try:
            start()
        except InvalidInput as error:
            log.error("the engine refuses attempt %s: %s", attempt.id, error)
            engine.deliveries.refused[attempt.id] = str(error)

    if not _call(control, engine, attempt, "started", submit):
        return False
    engine.deliveries.submitted.add(attempt.id)
    engine.deliveries.not_before.pop(attempt.id, None)
    return True


def _ask(control: ControlState, engine: AttachedEngine, attempt: Attempt, ask: LeaveRequest) -> bool:
    """Pass the request on; returns whether the engine has it."""
    request = partial(engine.adapter.request_leave, attempt.id, ask)
    if not _call(control, engine, attempt, f"asked to {ask}", request):
        return False
    engine.deliveries.leave_requests[attempt.id] = ask
    return True


def _call(
    control: ControlState, engine: AttachedEngine, attempt: Attempt, what: str, call: Callable[[], None]
) -> bool:
    """Call the engine; if it cannot be reached, postpone the attempt for a moment, and return False.

    The engine is postponed as well if this was not its first failure.
    """
    try:
        engine.delivery_rest.note_call(control.clock.now())
        call()
    except Unavailable as error:
        log.warning("attempt %s could not be %s now: %s", attempt.id, what, error)
        now = control.clock.now()  # the call may have been long
        engine.deliveries.not_before[attempt.id] = now + engine.pace.rest_s
        engine.delivery_rest.note_failure(error, now)
        return False
    engine.delivery_rest.note_answer()
    return True

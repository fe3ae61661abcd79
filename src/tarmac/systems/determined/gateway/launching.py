"""Connects the launch of a trial with the gateway: its address, a token, numbers, the newest checkpoint.

Wraps the server's function that makes launches; set by `daemon`.
"""

from tarmac.model.changes import ApplyConventions
from tarmac.model.codec import replace
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch
from tarmac.server.storage.reported_checkpoints import steps_of
from tarmac.systems.determined.conventions import CONNECTION, Connection
from tarmac.systems.determined.gateway.checkpoints import latest_checkpoint
from tarmac.systems.determined.gateway.gateway import Gateway, experiment_id
from tarmac.systems.determined.gateway.specs import named_source
from tarmac.systems.determined.gateway.tokens import Claim, TokenKind
from tarmac.systems.determined.reader import NAME

TOKEN_S = 366 * 24 * 3600.0
"""Lifetime of an attempt's token."""


def with_gateway(gateway: Gateway, apply_conventions: ApplyConventions) -> ApplyConventions:
    """`apply_conventions`, preceded by the connection of trials with the gateway."""

    def and_gateway(run: Run, attempt: Attempt, launch: Launch) -> Launch:
        conventions = run.spec.conventions
        if conventions.system == NAME and gateway.store.run(run.id) is not None:
            # a dry run, which is not stored, gets no number
            facts = {**conventions.facts, CONNECTION: _connection(gateway, run, attempt)}
            run = replace(run, spec=replace(run.spec, conventions=replace(conventions, facts=facts)))
        return apply_conventions(run, attempt, launch)

    return and_gateway


def _connection(gateway: Gateway, run: Run, attempt: Attempt) -> Connection:
    claim = Claim(kind=TokenKind.ALLOCATION, subject=attempt.id, owner=run.user)
    checkpoint, steps = _beginning(gateway, run)
    return Connection(
        url=gateway.url,
        token=gateway.tokens.make(claim, until=attempt.created_at + TOKEN_S),
        experiment=gateway.experiment_number(experiment_id(run)),
        trial=gateway.trial_number(run.id),
        checkpoint=checkpoint,
        steps=steps,
    )


def _beginning(gateway: Gateway, run: Run) -> tuple[str | None, int]:
    """The initial checkpoint and its step count; None: the checkpoint of the launch.

    The step count of a trial that starts from another trial's checkpoint begins at 0.
    """
    newest, source = latest_checkpoint(gateway, run), named_source(run.spec)
    if newest is None:
        return None, 0
    if newest.run_id == run.id or source is None:
        return newest.name, steps_of(newest)
    return source if isinstance(source, str) else newest.name, 0

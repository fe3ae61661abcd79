"""The runners of the local engine: forked by the warm parent, looked at in /proc.

Called by `engines/attempts/supervision.py` and `LocalEngine`. The values of secrets are asked for at every
start and never kept: after a crash at any point the next start asks again, and gets the value of that moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.run import Cause
from tarmac.model.secret import SecretValues
from tarmac.node.attempt import liveness
from tarmac.node.files import secretfiles
from tarmac.node.host.warm_parent import WarmParent
from tarmac.node.kernel import procfs, workergroup
from tarmac.node.processes import orphans

LAST_WORD_S = 0.05
"""How long the end of a runner that has said its last word is waited for, once: it takes a millisecond."""


class LocalRunners:
    """The `Runners` of this machine."""

    def __init__(self, warm: WarmParent, values: SecretValues) -> None:
        self._warm = warm
        self._values = values

    def check(self, secrets: Sequence[str]) -> None:
        """See that every one of these secrets can be had now."""
        if secrets:
            self._values(secrets)

    def start(self, view: AttemptView, node: NodeView) -> None:
        values = self._values(view.secrets) if view.secrets else {}
        try:
            self._warm.start_runner(str(view.directory), node.node, values)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        except OSError as error:
            raise Unavailable(error.strerror or str(error)) from None

    def life(self, view: AttemptView, node: NodeView) -> Life:  # noqa: ARG002 - this machine is always reached
        if runner_alive(node):
            return Life.ALIVE
        return Life.DEAD if node.claim is None or of_this_boot(node) else Life.RESTARTED

    def await_leaving(self, node: NodeView) -> None:
        if node.claim is not None:
            liveness.wait_for_end(node.claim, LAST_WORD_S)

    def end(self, view: AttemptView, node: NodeView) -> None:  # noqa: ARG002
        if node.claim is not None:
            liveness.end(node.claim)

    def fence(self, view: AttemptView) -> None:
        writing.fence(view)

    def lose(self, view: AttemptView, node: NodeView, cause: Cause) -> None:
        writing.lose(view, node, cause)

    def end_orphans(self, view: AttemptView) -> bool:
        """Only now that no runner is left: the token is the same on all nodes of an attempt."""
        if any(node.claim is None or of_this_boot(node) for node in view.nodes):
            try:
                orphans.end_orphans(view.token)
            except TimeoutError:
                return False  # something does not end yet: looked at again next time
            workergroup.remove_left(view.attempt_id)
        _remove_secrets(view)
        return True


def runner_alive(node: NodeView) -> bool:
    """Whether the process that claimed this node still is that process."""
    return node.claim is not None and liveness.is_alive(node.claim)


def of_this_boot(node: NodeView) -> bool:
    """Whether it was claimed since this machine was started: if not, nothing of it can be left."""
    return node.claim is not None and node.claim.boot_id == procfs.boot_id()


def _remove_secrets(view: AttemptView) -> None:
    """What a lost runner left of the files of secrets: nobody reads them any more."""
    if view.secrets:
        for node in view.nodes:
            secretfiles.remove(view.token, node.node, node.paths.directory)

"""The runners of the local engine: forked by the warm parent, inspected in /proc.

Called by `engines/attempts/supervision.py` and `LocalEngine`. The values of secrets are requested at every
start and never stored: after a crash at any point the next start requests the current values again.
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
"""How long to wait once for the exit of a runner that has reported its end: it takes a millisecond."""


class LocalRunners:
    """The `Runners` of this machine."""

    def __init__(self, warm: WarmParent, values: SecretValues) -> None:
        self._warm = warm
        self._values = values

    def check(self, secrets: Sequence[str]) -> None:
        """Check that all these secrets are readable."""
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
        """End the attempt's processes after all runners are gone, because all its nodes share one token."""
        if any(node.claim is None or of_this_boot(node) for node in view.nodes):
            try:
                orphans.end_orphans(view.token)
            except TimeoutError:
                return False  # a process has not ended yet: the next poll tries again
            workergroup.remove_left(view.attempt_id)
        _remove_secrets(view)
        return True


def runner_alive(node: NodeView) -> bool:
    """Whether the process that claimed this node is still that process."""
    return node.claim is not None and liveness.is_alive(node.claim)


def of_this_boot(node: NodeView) -> bool:
    """Whether it was claimed since this machine's boot: if not, no process of it can be left."""
    return node.claim is not None and node.claim.boot_id == procfs.boot_id()


def _remove_secrets(view: AttemptView) -> None:
    """Remove the secret files that a lost runner left: no process reads them any more."""
    if view.secrets:
        for node in view.nodes:
            secretfiles.remove(view.token, node.node, node.paths.directory)

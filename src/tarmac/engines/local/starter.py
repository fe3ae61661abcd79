"""Starting runners with what they must be told: the warm parent, and the values of the secrets of an attempt.

Called by `supervision` and `LocalEngine`. A value is asked for at every start and never kept: after a crash
at any point the next start asks again, and gets the value of that moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.local.warm import WarmParent
from tarmac.model.secret import SecretValues


class Starter:
    """Starts runners. Raises Unavailable when that is not possible now, InvalidInput when it never is."""

    def __init__(self, warm: WarmParent, values: SecretValues) -> None:
        self._warm = warm
        self._values = values

    def check(self, secrets: Sequence[str]) -> None:
        """See that every one of these secrets can be had now."""
        if secrets:
            self._values(secrets)

    def start(self, view: AttemptView, node: NodeView) -> None:
        """Start the runner of one node of an attempt; see `WarmParent.start_runner`."""
        values = self._values(view.secrets) if view.secrets else {}
        self._warm.start_runner(view.directory, node.node, values)

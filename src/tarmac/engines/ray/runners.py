"""The runners of the Ray engine: started, polled and ended by the agents of their nodes.

Called by `engines/attempts/supervision.py` and `RayEngine`. The directory of an attempt is created on a node
when its runner starts there; the values of secrets are requested at every start and never stored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.ray.node import RayNode, Travels
from tarmac.engines.ray.nodes import RayNodes
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.ports import StreamsCode
from tarmac.model.run import Cause, CauseCode
from tarmac.model.secret import SecretValues
from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import read_document
from tarmac.node.files import bundles, untrusted

MOST_FILE_BYTES = 64 * 1024 * 1024


class RayRunners:
    """The `Runners` on the nodes of a Ray. `home` has the directories of attempts there."""

    def __init__(
        self,
        nodes: RayNodes,
        home: Layout,
        *,
        travels: Travels,
        code: StreamsCode | None,
        secrets: SecretValues,
    ) -> None:
        self._nodes = nodes
        self._home = home
        self._travels = travels
        self._code = code
        self._secrets = secrets
        self._lives: dict[tuple[str, str], Life] = {}
        self._addresses: dict[str, Mapping[str, str]] = {}

    def check(self, secrets: Sequence[str]) -> None:
        """Check that all these secrets are readable."""
        if secrets:
            self._secrets(secrets)

    def node(self, view: AttemptView, node: str) -> RayNode:
        """The node on which a part of an attempt was placed."""
        return self._nodes.at(self.addresses(view)[node])

    def addresses(self, view: AttemptView) -> Mapping[str, str]:
        """The addresses of an attempt's nodes, by their names in it."""
        addresses = self._addresses.get(view.attempt_id)
        if addresses is None:
            parts = read_document(view.paths.description).nodes
            addresses = self._addresses[view.attempt_id] = {part.node: part.address for part in parts}
        return addresses

    def note_lives(self, view: AttemptView, node: str, life: Life) -> None:
        """Note the state of a node's runner that its agent just reported."""
        self._lives[view.attempt_id, node] = life

    def forget(self, view: AttemptView) -> None:
        """Forget an ended attempt."""
        self._addresses.pop(view.attempt_id, None)
        for node in view.nodes:
            self._lives.pop((view.attempt_id, node.node), None)

    def start_all(self, view: AttemptView) -> None:
        """Start every unclaimed runner, on all nodes at once. Raises as `start`."""
        pending = [node for node in view.nodes if node.facts.state is PartState.UNCLAIMED]
        if len(pending) == 1:
            self._start(view, pending[0])
            return
        for start in [self._nodes.pool.submit(self._start, view, node) for node in pending]:
            start.result()

    def _start(self, view: AttemptView, node: NodeView) -> None:
        node.supervision.starts += 1
        self.start(view, node)

    def start(self, view: AttemptView, node: NodeView) -> None:
        place, directory = self.node(view, node.node), self.directory(view.attempt_id)
        files = {
            name: untrusted.read_bytes(str(view.directory / name), MOST_FILE_BYTES)
            for name in (protocol.ATTEMPT_FILE, protocol.ASK_FILE)
            if (view.directory / name).exists()
        }
        values = dict(self._secrets(view.secrets)) if view.secrets else {}
        try:
            self._bring_code(place, view)
            place.start_runner(directory, node.node, files=files, secrets=values, travels=self._travels)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        except OSError as error:
            if error.errno in writing.SPACE_ERRORS and not place.has(view.attempt_id, node.node):
                self._lose_by_disk(place, view, node, error)
                return
            raise Unavailable(f"{place.name}: {error.filename or ''} {error.strerror}") from None
        node.supervision.requested_at = time.monotonic()

    def _withdraw(self, place: RayNode, view: AttemptView, node: NodeView, error: OSError) -> None:
        """Remove the document if a full disk takes neither claim nor fence: without it no runner starts."""
        document = self.directory(view.attempt_id) / protocol.ATTEMPT_FILE
        try:
            place.call("remove_trees", paths=[str(document)])
        except OSError as problem:
            raise Unavailable(f"cannot fence attempt {view.attempt_id}: {problem.strerror}") from None
        self._lose_by_disk(place, view, node, error)

    def _lose_by_disk(self, place: RayNode, view: AttemptView, node: NodeView, error: OSError) -> None:
        place.note_disk(error)
        message = f"{place.name}: {place.full}"
        self.lose(view, node, Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=node.node))

    def life(self, view: AttemptView, node: NodeView) -> Life:
        away = self.node(view, node.node).life()
        return away or self._lives.get((view.attempt_id, node.node), Life.SILENT)

    def await_leaving(self, node: NodeView) -> None:
        """Do nothing: the next poll asks the agents again."""

    def end(self, view: AttemptView, node: NodeView) -> None:
        with suppress(Unavailable, OSError):
            self.node(view, node.node).call(
                "end", directory=str(self.directory(view.attempt_id)), node=node.node
            )

    def fence(self, view: AttemptView) -> None:
        for node in view.nodes:
            place = self.node(view, node.node)
            if node.facts.state is not PartState.UNCLAIMED or place.life() is Life.LOST:
                continue
            try:
                place.make_directory(self.directory(view.attempt_id), {})
                place.call("fence", directory=str(self.directory(view.attempt_id)), nodes=[node.node])
                place.refresh({view.attempt_id: node.node})
            except OSError as error:
                if error.errno not in writing.SPACE_ERRORS:
                    raise Unavailable(f"cannot fence attempt {view.attempt_id}: {error.strerror}") from None
                self._withdraw(place, view, node, error)
        view.refresh()

    def lose(self, view: AttemptView, node: NodeView, cause: Cause) -> None:
        writing.lose(view, node, cause)

    def end_orphans(self, view: AttemptView) -> bool:
        """End processes on reachable nodes; on others the runner ends its work by itself."""
        done = True
        for node in view.nodes:
            place = self.node(view, node.node)
            if place.life() is not None:
                continue
            try:
                place.call(
                    "end_orphans",
                    attempt_id=view.attempt_id,
                    token=view.token,
                    directory=str(self.directory(view.attempt_id)),
                    node=node.node,
                )
            except (Unavailable, OSError):
                done = False
        return done

    def directory(self, attempt_id: str) -> Path:
        """The directory of an attempt on its nodes."""
        directory = self._home.attempt(attempt_id)
        assert directory is not None, "it has a view"
        return directory

    def _bring_code(self, place: RayNode, view: AttemptView) -> None:
        """Store the snapshot of code on the node, once for all attempts."""
        code = read_document(view.paths.description).code
        if code is None or place.host.use(Path(code)):
            return
        if self._code is None:
            raise InvalidInput("this cluster was given no code to take from")
        path = Path(code)
        try:
            place.host.take_code(path.parent, path.name, self._code.stream(path.name))
        except (bundles.BrokenOff, ValueError) as error:
            raise Unavailable(f"the code was not taken to {place.name}: {error}") from None

"""The working directories of attempts, for the routes: lists and reads them for their owner and admins.

They may contain confidential data, such as keys that a program wrote.
"""

from collections.abc import Callable, Iterator

from tarmac import api
from tarmac.control.permissions import Action, check
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound, suggestion
from tarmac.model.run import Attempt
from tarmac.node.attempt.protocol import NODES, WORK, rank_name

MOST_LISTED = 10_000
PIECE_BYTES = 1 << 20


class WorkFiles:
    """Queries about working directories. From any thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def listing(
        self, actor: Actor, reference: str, path: str, *, attempt: int | None, node: str | None
    ) -> api.WorkFiles:
        """A directory of an attempt: by default the newest, on its first node; raises NotFound.

        At most `MOST_LISTED` of its entries are listed.
        """
        chosen, name = self._place(actor, reference, attempt, node)
        path = path.strip("/")
        found = self._plane.files(actor, chosen.id, _below(chosen, name, path), limit=MOST_LISTED + 1)
        files = tuple(
            api.WorkFile(name=each.name, kind=each.kind, bytes=each.size_bytes, modified_at=each.modified_at)
            for each in found[:MOST_LISTED]
        )
        more = len(found) > MOST_LISTED
        return api.WorkFiles(attempt=chosen.number, node=name, path=path, files=files, more=more)

    def piece(
        self, actor: Actor, reference: str, path: str, *, offset: int, attempt: int | None, node: str | None
    ) -> bytes:
        """The next bytes of a file; empty at its end. Raises NotFound with the nearest name."""
        chosen, name = self._place(actor, reference, attempt, node)
        path = path.strip("/")
        try:
            return self._plane.read(actor, chosen.id, _below(chosen, name, path), offset, PIECE_BYTES)
        except NotFound:
            parent, _, last = path.rpartition("/")
            beside = self._plane.files(actor, chosen.id, _below(chosen, name, parent), limit=MOST_LISTED)
            kinds = {each.name: each.kind for each in beside}
            where = f"in attempt {chosen.number} on {name}"
            kind = kinds.pop(last, "file")
            if kind != "file":
                hint = "tarmac files RUN PATH lists a directory; links are not followed"
                raise NotFound(f"{path!r} {where} is not a file ({kind})", hint=hint) from None
            hint = suggestion(last, kinds, "tarmac files RUN lists what is there")
            raise NotFound(f"there is no file {path!r} {where}", hint=hint) from None

    def _place(
        self, actor: Actor, reference: str, number: int | None, node: str | None
    ) -> tuple[Attempt, str]:
        run = self._plane.find_here(actor, reference)
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project, what="files")
        attempts = self._plane.attempts(actor, run.id)
        chosen = next((each for each in reversed(attempts) if number in (None, each.number)), None)
        if chosen is None:
            had = f"it has had {len(attempts)} so far" if attempts else "it has not started yet"
            named = "attempt" if number is None else f"attempt {number}"
            raise NotFound(f"there is no {named} of {run.name} ({run.id}): {had}")
        nodes = list(chosen.allocation.nodes)
        if node is None and nodes:
            return chosen, nodes[0]
        if node not in nodes:
            hint = suggestion(node or "", nodes, f"its nodes: {', '.join(nodes) or 'none yet'}")
            raise NotFound(f"attempt {chosen.number} of {run.name} has no node {node!r}", hint=hint)
        return chosen, node


def pieces(first: bytes, offset: int, read: Callable[..., bytes]) -> Iterator[bytes]:
    """The bytes of a file from an offset to its end; `first` has those at the offset."""
    while first:
        yield first
        offset += len(first)
        first = read(offset=offset)


def _below(attempt: Attempt, node: str, path: str) -> str:
    """The path in the attempt directory: nodes assigned by a cluster's queue have their ranks as names."""
    own = node if attempt.granted_at is None else rank_name(attempt.allocation.nodes.index(node))
    return "/".join(part for part in (NODES, own, WORK, path) if part)

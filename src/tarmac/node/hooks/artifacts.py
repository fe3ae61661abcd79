"""Hooks around the workers: make and fill artifact directories before, remove half-written checkpoints after.

Called by `runner`. On a node with a disk of its own, and for a run that names artifacts as its input, the
hook first restores the last complete versions; if that fails, the run does not start. If the runner of the
previous attempt was killed, the hook first repeats its last sync, on any disk. If attempts failed with a
checkpoint, the hook also replaces it by an older one, and later that one by the newest again. A checkpoint
that a process was writing through the SDK's `checkpoint()` when it ended is unusable: its own node removes it
afterwards, and a later attempt removes those of a lost node.
"""

from __future__ import annotations

import json
import os
from typing import Callable

from tarmac.node.attempt import protocol
from tarmac.node.attempt.claims import lost_before
from tarmac.node.files import untrusted
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.processes.spawn import CannotStart, Command


def artifacts_in(run: NodeRun) -> None:
    """Make the directories, set their variables, remove unfinished files of earlier attempts."""
    for kind, variables in protocol.ARTIFACT_VARIABLES.items():
        if (directory := run.part.artifacts.get(kind)) is not None:
            run.node_env.update(dict.fromkeys(variables, directory))
    if run.spare is not None:
        alone = run.is_plain and len(run.document.nodes) == 1 and run.document.settings.spare is not None
        if alone and run.spare.lend(run.part.artifacts):
            return
        run.spare.drop()
        run.spare = None
    for directory in run.part.artifacts.values():
        os.makedirs(directory, exist_ok=True)
    this_attempt = protocol.unfinished_prefix(run.document.number)
    _clear(run, lambda name: not name.startswith(this_attempt))


def place_artifacts(run: NodeRun) -> None:
    """Restore the last complete versions into the directories; raises Leave if that fails."""
    document, part, state = run.document, run.part, run.part.artifact_state
    if document.sync is None or state is None:
        return
    inputs, first = bool(document.sync.inputs), part.rank == 0
    lost = lost_before(run.attempt, document.number, document.node_names[:1] if part.own_disk else None)
    replaced = document.sync.rejected_by is not None
    if not first and (lost or replaced or (inputs and not part.own_disk)):
        run.wait_for(run.attempt.placed)
    if part.own_disk and document.number == 1 and not inputs:
        untrusted.replace(state, json.dumps({"attempt": document.number, "rank": part.rank}).encode())
    elif part.own_disk or (first and (lost or replaced or (inputs and not os.path.exists(state)))):
        _place(run)
    if first and len(document.nodes) > 1 and (inputs or document.number > 1):
        run.notify_nodes(run.attempt.placed)


def artifacts_out(run: NodeRun) -> None:
    """Remove the unfinished checkpoints of this node after its workers have ended."""
    run.is_untouched = run.spare is not None and run.spare.is_untouched()
    if run.is_untouched:
        return
    mine = protocol.unfinished_prefix(run.document.number, run.part.rank)
    _clear(run, lambda name: name.startswith(mine))


def _place(run: NodeRun) -> None:
    # The runner's environment, not the run's: it gives access to the store.
    env, node = dict(os.environ), run.node
    command = Command(run.sidecar.command("fill"), env, "/", log=node.sync_log, stdout=node.sync)
    try:
        child = run.children.start(command)
    except CannotStart as problem:
        why = str(problem)
    else:
        run.attend(child, news=run.sidecar.take_news, at_once=True)
        if child.exit_code == 0:
            return
        why = "see its notices"
    # The attempt is retried, and never starts without its artifacts.
    raise Leave(run.fault(f"the run's artifacts could not be placed on {run.node_name}: {why}"))


def _clear(run: NodeRun, rubbish: Callable[[str], bool]) -> None:
    directory = run.part.artifacts.get("checkpoint")
    if directory is None:
        return
    for name in os.listdir(directory):
        if name.startswith(protocol.UNFINISHED) and rubbish(name):
            untrusted.discard_tree(os.path.join(directory, name))

"""The runner: supervises one node's part of an attempt, from its claim to the event `ended`.

Called by `__main__` (a separate process) and by `warm` (forked). It outlives its starter, communicates only
through the attempt directory (see `protocol`), and after any failure its last event is `ended`, written after
the last process of the attempt on the node has ended.

After that it may serve another attempt like a new process, if its changes to itself are simple to revert, as
for most attempts. A runner that may retain anything else (a secret, an environment in use) ends with its
attempt.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Callable, Mapping, Optional

from tarmac.node.attempt import claims, protocol, words
from tarmac.node.attempt.document import GrantedNode, Launch, NodeLaunch, Unreadable, read_document
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.exit_outcome import ExitOutcome
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.files import untrusted
from tarmac.node.files.masking import Mask
from tarmac.node.hooks import artifacts, code, mounts, pre_post_commands, workers
from tarmac.node.hooks.secrets import give_secrets, take_secrets_back
from tarmac.node.hooks.watch import watch
from tarmac.node.kernel import namespaces, sockets, syscalls
from tarmac.node.kernel.mounts import take_back
from tarmac.node.noderun import Leave, NodeRun
from tarmac.node.spare import Spare


def _settle_rendezvous(run: NodeRun) -> None:
    """Fill in the addresses, port and devices that attempt.json leaves open; raises OSError or Leave.

    On nodes that a cluster granted late, the node of rank 0 finds a free port and writes it into the attempt
    directory; the others wait for it. Without a shared directory the port is computed from the attempt's id;
    if that port is taken, the attempt is retried under another id.
    """
    granted = run.granted
    if granted is None:
        return
    if len(granted.names) != len(run.document.nodes):
        needed = len(run.document.nodes)
        raise OSError(f"the attempt needs {needed} nodes, and was given {len(granted.names)}")
    late = {protocol.late_address(rank): address for rank, address in enumerate(granted.addresses)}
    late[protocol.LATE_PORT] = str(_port(run))
    document = read_document(run.attempt.description, late)
    run.document, run.part = document, granted.with_devices(document.part(run.part.node))
    for worker, part in zip(run.workers, run.part.workers):  # noqa: B905 - the same workers
        worker.part = part


def _port(run: NodeRun) -> int:
    first, path = run.part.rank == 0, run.attempt.meeting
    if not run.document.settings.shared_directory:
        port = sockets.derived_port(run.document.attempt_id)
        if first and not sockets.is_free_port(port):
            raise OSError(f"port {port}, which the attempt needs for its rendezvous, is taken")
        return port
    if first:
        port = sockets.find_free_port()
        untrusted.replace(path, json.dumps({"port": port}).encode())
        run.notify_nodes(path)
        return port
    run.wait_for(path)
    return int(untrusted.read_object(path)["port"])


def _set_up(run: NodeRun) -> None:
    """Call the hook of the setup steps; other runs start faster without loading its modules."""
    if run.document.setup or run.document.own_packages:
        from tarmac.node.hooks.setup import set_up  # noqa: PLC0415

        set_up(run)


def _enter_image(run: NodeRun) -> None:
    """Call the hook of the container, loading its modules on use."""
    if run.document.container is not None:
        from tarmac.node.hooks.image import enter_image  # noqa: PLC0415

        enter_image(run)


def _become_user(run: NodeRun) -> None:
    """Call the hook of the system user, loading its module on use."""
    if run.document.runs_as is not None:
        from tarmac.node.hooks.system_user import become_user  # noqa: PLC0415

        become_user(run)


HOOKS: tuple[Callable[[NodeRun], None], ...] = (
    _become_user,
    _settle_rendezvous,
    artifacts.artifacts_in,
    mounts.write_files,
    give_secrets,
    mounts.mount,
    artifacts.place_artifacts,
    code.copy_code,
    mounts.bind_inside,
    _enter_image,
    _set_up,
    pre_post_commands.run_before,
    workers.limit_workers,
    workers.report_shared_pids,
    workers.start_workers,
    watch,
    pre_post_commands.run_after,
    artifacts.artifacts_out,
)

_LOOK_AGAIN_S = 0.05


def run_attempt(
    directory: str,
    node_name: str,
    namespace: Optional[namespaces.ProcessNamespace],
    secrets: Optional[Mapping[str, str]] = None,
    granted: Optional[GrantedNode] = None,
    *,
    spare: Optional[Spare] = None,
    waits: Optional[Callable[[], object]] = None,
) -> bool:
    """Run one node's part of the attempt in `directory`; does nothing if it is claimed or fenced.

    `namespace` if this process is the first of one. `secrets` are the values of those in attempt.json,
    `granted` is the grant of a cluster with a queue of its own. True if this process can serve another
    attempt; it has then called `waits`, if possible before the engine learns of the end (None: it serves no
    other). `spare` has the artifact directories of earlier attempts.
    """
    if namespace is None:  # its first process is one
        syscalls.become_subreaper()
    attempt = AttemptPaths(directory)
    try:
        document = read_document(attempt.description)
        document.part(node_name)
    except Unreadable as error:
        _refuse(attempt, node_name, str(error), namespace)
        return False
    run = _claim(document, node_name, attempt, namespace, granted)
    if run is None:
        if waits is not None:
            waits()
        return waits is not None
    if secrets:
        run.secret_values, run.events.mask = secrets, Mask(secrets.values())
    run.spare = spare
    end = _supervise(run)
    _end_everything(run)
    run.log_room.look(last=True)
    run.lease.guard.end(run.children)
    run.meter.end(run.children)
    take_secrets_back(run)
    torn = run.progress.torn if run.progress is not None else None
    run.sidecar.finish(run.exits, torn, at=run.over_at or time.time(), untouched=run.is_untouched)
    workers.lift(run)
    if document.container is not None:
        from tarmac.node.hooks import image  # noqa: PLC0415

        image.leave_image(run)
    more = _matches(run) if document.log_policies and end.outcome == words.FAILED else {}
    again = waits is not None and end.outcome == words.COMPLETED and run.is_plain and not _has_company()
    kept = again and run.spare is not None and run.spare.take_back(document.settings.spare or "")
    run.events.append("ended", outcome=end.outcome, cause=end.cause, finished=run.finished, **more)
    _deliver(run, waits if kept else None)
    if document.container is not None:
        image.remove_root(run)
    if waits is not None and again:
        run.wake_channel.close()
        if not kept and (again := _revert(run)):
            waits()
    return again


def _claim(
    document: Launch,
    node_name: str,
    attempt: AttemptPaths,
    namespace: Optional[namespaces.ProcessNamespace],
    granted: Optional[GrantedNode] = None,
) -> Optional[NodeRun]:
    """The part to run; None if it is claimed or fenced: then this runner must exit without a trace."""
    node = attempt.node(node_name)
    pid, name = os.getpid(), ""
    if namespace is not None:
        pid, name = namespace.pid, f"{namespaces.NAME}-{os.urandom(4).hex()}"
        syscalls.rename_self(name)
    if not claims.take(node, document.token, pid=pid, name=name):
        _give_up(namespace)
        return None
    events = EventLog(node.events, notify=document.settings.notify, attempt_id=document.attempt_id)
    events.append("claimed", pid=pid, **({"name": granted.name} if granted is not None else {}))
    untrusted.make_directory(attempt.logs)
    return NodeRun(document, document.part(node_name), attempt, events, namespace=namespace, granted=granted)


def _supervise(run: NodeRun) -> ExitOutcome:
    """Run every hook; returns the outcome in all cases."""
    try:
        run.lease.begin(run.children, has_namespace=run.namespace is not None)
        for hook in HOOKS:
            hook(run)
        return run.outcome()
    except Leave as leave:
        return leave.outcome
    except OSError as error:
        return run.fault(f"{run.node_name} could not run it: {error}")
    except Exception as error:  # noqa: BLE001
        # The outermost handler: a bug must leave neither workers nor an attempt without an end.
        import traceback  # noqa: PLC0415 - a runner starts while somebody waits; it seldom fails

        with suppress(OSError):
            untrusted.append_text(run.node.runner_log, traceback.format_exc())
        return run.fault(f"the runner on {run.node_name} failed: {type(error).__name__}: {error}")


def _matches(run: NodeRun) -> dict[str, object]:
    """The matches of patterns in the logs, as a field of the last event."""
    from tarmac.node.hooks.policies import log_matches  # noqa: PLC0415

    return {"log_matches": found} if (found := log_matches(run)) else {}


def _end_everything(run: NodeRun) -> None:
    """End all processes of interrupted hooks."""
    run.children.reap()
    while not run.children.none_left:
        refusing = run.children.end()
        run.children.reap()
        if run.children.none_left or len(refusing) >= len(run.children.living()):
            return  # only processes of another user are left
        run.wake_channel.wait(time.monotonic() + _LOOK_AGAIN_S)


def _deliver(run: NodeRun, before_news: Optional[Callable[[], object]] = None) -> None:
    """Write the report to the disk, however long that is full, unless its directory was removed."""
    while not run.events.finish() and os.path.isdir(run.node.directory):
        run.wake_channel.wait()
    _give_up(run.namespace)
    if before_news is not None:
        before_news()
    run.events.ring()


def _give_up(namespace: Optional[namespaces.ProcessNamespace]) -> None:
    """Remove the name that proves that the claim is alive: the last event marks the end."""
    if namespace is not None:
        syscalls.rename_self(namespaces.NAME)


def _refuse(
    attempt: AttemptPaths, node_name: str, message: str, namespace: Optional[namespaces.ProcessNamespace]
) -> None:
    """Report an unreadable attempt.json, if there is a directory for the report."""
    if not os.path.isdir(attempt.directory):
        return
    substitute = Launch(attempt_id="", number=0, token="", nodes=(NodeLaunch(node_name, 0, ()),))
    run = _claim(substitute, node_name, attempt, namespace)
    if run is not None:
        end = run.fault(message)
        run.events.append("ended", outcome=end.outcome, cause=end.cause, finished=False)
        _deliver(run)


def _revert(run: NodeRun) -> bool:
    """Revert the attempt's changes to this process; False if the process must end instead."""
    if run.progress is not None:
        run.progress.release()
    if run.spare is not None:
        run.spare.forget()
    return take_back(run.mounted)


def _has_company() -> bool:
    """Whether the namespace has other processes: below the runner, or of a person's session."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        with suppress(ProcessLookupError):
            os.kill(-1, 0)  # every other process that is visible here
            return True
        return False
    return True

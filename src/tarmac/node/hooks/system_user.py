"""Hook: let the attempt's processes be those of a system user, and own the directories they need.

Called by `runner`, first of all hooks and only for runs with a system user. From then on the runner, which
stays root, uses files with that user's rights; `as_server` marks the exceptions (events, control groups,
programs of the server). The directories that hold the runner's files stay root's and are sticky: the
run may add its own files there and touch no other. Other users cannot reach them through the tarmac home.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import words
from tarmac.node.kernel import handles, system_users
from tarmac.node.kernel.mounts import UserView
from tarmac.node.kernel.namespaces import reply_of
from tarmac.node.kernel.system_users import Refused, SystemUser
from tarmac.node.noderun import NodeRun

_SHARED = 0o1777
"""Every process that reaches the directory may add entries, and remove its own alone."""

_PRIVATE = 0o700


def become_user(run: NodeRun) -> None:
    """Prepare the view of the user, and use files as the user; raises Leave if that is impossible."""
    document, part = run.document, run.part
    assert document.runs_as is not None
    try:
        user = system_users.find(document.runs_as.name, document.runs_as.least_uid)
        if run.namespace is None:
            raise Refused("it allows root no namespaces, which keep the run's processes apart")
        if document.container is not None:
            raise Refused("a run in an image cannot run as a system user")
        kept = sorted({os.path.dirname(path) for path in part.artifacts.values()})
        own = [*kept, *filter(None, [document.environments])]
        for directory in own:
            _give(directory, user)
        for directory in (run.attempt.directory, run.attempt.logs, run.node.directory):
            os.chmod(directory, _SHARED)
        os.chown(run.node.heartbeat, user.uid, user.gid)
        sdk = document.settings.sdk
        shown = [run.attempt.directory, *own, *([] if sdk is None else [os.path.dirname(sdk)])]
        view = UserView(user, tuple(os.path.realpath(path) for path in dict.fromkeys(shown)))
        if problem := reply_of(lambda _say: view.enter()):
            raise Refused(problem)
    except Refused as error:
        message = f"{run.node_name} cannot run it as the system user {document.runs_as.name}: {error}"
        raise run.fail(run.cause(words.SETUP_FAILED, message)) from None
    run.view = view
    system_users.act_as(user, as_runner=True)


def _give(directory: str, user: SystemUser) -> None:
    """Make a private directory of the user's; raises Refused for one of another user."""
    os.makedirs(directory, mode=_PRIVATE, exist_ok=True)
    with handles.closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)) as handle:
        if os.fstat(handle).st_uid not in (os.geteuid(), user.uid):
            raise Refused(f"{directory} belongs to another user (uid {os.fstat(handle).st_uid})")
        os.fchown(handle, user.uid, user.gid)
        os.fchmod(handle, _PRIVATE)

"""The view of the disk in which the processes of a system user start, and their change to that user.

Made by the hook `system_user`; `spawn` enters it for every process of such a run, as it enters a container.
Each process makes a view of its own. No program of root ever starts in one: the run decides on its binds.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator, Mapping, NamedTuple, Sequence, Tuple

from tarmac.node.kernel import mounts, namespaces, system_users
from tarmac.node.kernel.mountplan import Plan
from tarmac.node.kernel.system_users import SystemUser

NO_MOUNTS = Plan((), (), ())


class UserView(NamedTuple):
    """The user, the directories of the run that the user can reach in any case, and the literal paths."""

    user: SystemUser
    shown: Tuple[str, ...]
    plan: Plan = NO_MOUNTS

    def enter(self) -> None:
        """Enter from the process that becomes the command, and become the user. Raises OSError."""
        namespaces.own_disk_view()
        for directory in sorted({closed for path in self.shown for closed in self._closed(path)}):
            mounts.show_only(directory, [path for path in self.shown if path.startswith(f"{directory}/")])
        mounts.carry_out(self.plan, opening_as=self.user)
        system_users.become(self.user)

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> Tuple[Sequence[str], Mapping[str, str], str]:
        """The program for a command: the command itself."""
        return argv, env, directory

    @contextmanager
    def outside(self, path: str) -> Iterator[None]:
        """Use a path that the run names with its user's rights, unless it is one that the view shows."""
        if any(path == shown or path.startswith(f"{shown}/") for shown in self.shown):
            yield
            return
        with system_users.as_server(), system_users.with_files_of(self.user):
            yield

    def _closed(self, path: str) -> Tuple[str, ...]:
        """The outermost directory above a path that the user may not pass, if there is one."""
        above = path
        found: Tuple[str, ...] = ()
        while above != "/":
            above = os.path.dirname(above)
            if not self.user.may_pass(above):
                found = (above,)
        return found

"""The way into a container that stands. Made by `root`; called for every process of its attempt."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.kernel import syscalls

_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31)
"""Of the powers of root those that programs for packages need: owners and modes of files (chown,
dac_override, fowner, fsetid, setfcap), its own processes under other users (kill, setgid, setuid, setpcap),
net_bind_service, sys_chroot. None of them reaches beyond what the container is shown."""

_BASH, _SHELL = "bash", "sh"


class Container(NamedTuple):
    """A container that stands, held open by its namespaces (`users` None: it has none of its own).

    `env` are the variables of its image, `numbers` what slots are called in it (see `devices`); `key` tells
    its image from any other.
    """

    mounts: int
    users: Optional[int]
    env: Mapping[str, str]
    numbers: Mapping[int, int]
    key: str

    def enter(self) -> None:
        """In the process that is to be the command: go in, without what it must not have. Raises OSError."""
        if self.users is not None:
            syscalls.join_namespace(self.users, syscalls.CLONE_NEWUSER)
        syscalls.join_namespace(self.mounts, syscalls.CLONE_NEWNS)
        syscalls.limit_capabilities(_CAPABILITIES)
        syscalls.renounce_privileges()

    def command(self, argv: Sequence[str], env: Mapping[str, str]) -> Sequence[str]:
        """Inside: what is executed for a command. Scripts are bash's; a small image has another shell."""
        if argv[0] == _BASH and not _is_there(_BASH, env) and _is_there(_SHELL, env):
            return (_SHELL, *argv[1:])
        return argv

    def close(self) -> None:
        """Let go of it: it is gone with its last process."""
        for handle in (self.mounts, self.users):
            if handle is not None:
                os.close(handle)


def _is_there(command: str, env: Mapping[str, str]) -> bool:
    return any(os.path.exists(os.path.join(place, command)) for place in os.get_exec_path(dict(env)))

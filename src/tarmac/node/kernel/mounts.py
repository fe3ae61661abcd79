"""A private view of the disk with the documented literal paths. Called by the hook `mounts`.

The runner enters a mount namespace of its own: as root, or inside a user namespace that maps only the user
itself if the kernel allows that. Only the processes that the runner starts share this view.

The processes of a system user start in a `UserView`. Made by the hook `system_user`; `spawn` enters it for
every process of such a run, as it enters a container. Each process makes a view of its own. No program of
root ever starts in one: the run decides on its binds.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.kernel import namespaces, syscalls, system_users
from tarmac.node.kernel.mountplan import DIRECTORY, LINK, ROOT, Bind, Cover, Disk, Plan, plan_mounts
from tarmac.node.kernel.system_users import SystemUser

_OLD_ROOT = ".tarmac-old-root"
_PLACES = ("/tmp", "/mnt", "/var", "/run", "/opt")
"""Directories in which the new root may be assembled: they hide nothing needed meanwhile."""

_PLAIN = syscalls.MS_NOSUID | syscalls.MS_NODEV
_NO_WRITES = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | _PLAIN
_LOCKED_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
"""Flags that a user namespace may not remove from a mount; their bits are those of mount(2)."""


class NotAllowed(Exception):
    """This node allows no private view of the disk; nothing was changed."""


def make_true(wishes: Sequence[Bind], *, own_view: bool) -> Plan:
    """Enter a private view (unless `own_view`), make the binds and return the plan.

    Raises NotAllowed.
    """
    try:
        plan = plan_mounts(wishes, Disk())
        if plan.binds and not own_view:
            enter_own_view()
        carry_out(plan)
    except OSError as error:
        raise NotAllowed(str(error)) from error
    return plan


def take_back(plan: Optional[Plan]) -> bool:
    """Unmount unused mounts; False if that is impossible."""
    if plan is None:
        return True
    if any(cover.directory == ROOT for cover in plan.covers):
        return False
    try:
        for path in reversed(
            [*(cover.directory for cover in plan.covers), *(bind.target for bind in plan.binds)]
        ):
            syscalls.unmount(path)
    except OSError:
        return False
    return True


def enter_own_view() -> None:
    """Hide all later mounts from other processes, except descendants. Raises OSError."""
    try:
        namespaces.own_disk_view()
    except PermissionError:
        namespaces.become_own_root()
        namespaces.own_disk_view()


def carry_out(plan: Plan, *, opening_as: Optional[SystemUser] = None) -> None:
    """Make a new root first, if planned; then everything else, in that root. Raises OSError.

    `opening_as`: the sources are those that this user can reach.
    """
    if not plan.covers or plan.covers[0].directory != ROOT:  # the plan has the outermost first
        _carry_out_inside(plan, opening_as)
        return
    _new_root(plan.covers[0])
    _carry_out_inside(plan._replace(covers=plan.covers[1:]), opening_as)
    _seal(ROOT)


def show_only(directory: str, paths: Sequence[str]) -> None:
    """Cover a directory with one that every user may pass, and that has only these. Raises OSError."""
    handles = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in paths}
    mask = os.umask(0o022)
    try:
        syscalls.mount("tarmac", directory, "tmpfs", _PLAIN, "size=1m,mode=711")
        for path, handle in handles.items():
            make_placeholder(path, DIRECTORY)
            bind_mount(_path(handle), path)
        _seal(directory)
    finally:
        os.umask(mask)
        for handle in handles.values():
            os.close(handle)


def _new_root(cover: Cover) -> None:
    """Make a file system in memory the root, with the entries of the old root and the new ones."""
    place = next((path for path in _PLACES if os.path.isdir(path)), None)
    if place is None:
        raise OSError(f"there is none of {', '.join(_PLACES)} to make a root at")
    old = f"/{_OLD_ROOT}"
    with ExitStack() as undo:
        syscalls.mount("tarmac", place, "tmpfs", _PLAIN, "size=1m,mode=755")
        undo.callback(syscalls.unmount, place)
        os.mkdir(f"{place}{old}")
        syscalls.pivot_root(place, f"{place}{old}")
        undo.callback(os.chdir, ROOT)
        undo.callback(syscalls.pivot_root, old, f"{old}{place}")
        os.chdir(ROOT)
        _show(cover, old)
        undo.pop_all()
    syscalls.unmount(old)
    os.rmdir(old)


def _carry_out_inside(plan: Plan, opening_as: Optional[SystemUser]) -> None:
    """Cover and bind. Sources and covered directories stay open, because covers may hide their paths."""
    places = {cover.source or cover.directory for cover in plan.covers} | {bind.source for bind in plan.binds}
    handles: dict[str, int] = {}
    with ExitStack() as opened, ExitStack() as undo:
        with nullcontext() if opening_as is None else system_users.with_files_of(opening_as):
            for path in places:
                handles[path] = os.open(path, os.O_PATH)
                opened.callback(os.close, handles[path])
        for cover in plan.covers:
            _cover(cover, handles[cover.source or cover.directory])
            undo.callback(syscalls.unmount, cover.directory)
        for bind in plan.binds:
            bind_mount(_path(handles[bind.source]), bind.target)
            undo.callback(syscalls.unmount, bind.target)
            if bind.read_only:
                make_read_only(bind.target)
        for cover in plan.covers:
            _seal(cover.directory)
        undo.pop_all()


def _cover(cover: Cover, original: int) -> None:
    """Mount an empty file system over a directory, and show the directory's entries and the new ones."""
    status = os.stat(original)
    owner = f",uid={status.st_uid},gid={status.st_gid}" if os.geteuid() == 0 else ""
    options = f"size=1m,mode={status.st_mode & 0o7777:o}{owner}"
    syscalls.mount("tarmac", cover.directory, "tmpfs", _PLAIN, options)
    _show(cover, _path(original))
    if cover.read_only:
        make_read_only(cover.directory)


def _show(cover: Cover, original: str) -> None:
    """Fill a cover with the entries of the original directory and the new ones."""
    for name, kind in cover.entries:
        source, target = f"{original}/{name}", os.path.join(cover.directory, name)
        if kind == LINK:
            os.symlink(os.readlink(source), target)
        else:
            make_placeholder(target, kind)
            bind_mount(source, target)
    for name, kind in cover.new:
        make_placeholder(os.path.join(cover.directory, name), kind)


def make_placeholder(path: str, kind: str) -> None:
    """Make the directory or the empty file that a bind covers."""
    if kind == DIRECTORY:
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o444))


def bind_mount(source: str, target: str) -> None:
    """Show a file or directory, and the mounts below it, at an existing target. Raises OSError."""
    syscalls.mount(source, target, "", syscalls.MS_BIND | syscalls.MS_REC)


def make_read_only(target: str, proc: str = "/proc") -> None:
    """Make a mount and every one below it read-only, and ignore set-user-ID programs in them.

    `proc` contains the kernel's list of mounts.
    """
    for path in _mounts_below(os.path.realpath(target), proc):
        old_flags = os.statvfs(path).f_flag & _LOCKED_FLAGS
        syscalls.mount("none", path, "", _NO_WRITES | old_flags)


def _mounts_below(target: str, proc: str) -> list[str]:
    """This process's mounts at a path or inside it; outer ones first."""
    found = {target}
    with open(f"{proc}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), line.split(" ")[4])
            if point.startswith(f"{target}/"):
                found.add(point)
    return sorted(found)


def _seal(directory: str) -> None:
    """Refuse writes beside the mounts, which would be lost in memory."""
    syscalls.mount("none", directory, "", _NO_WRITES)


def _path(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


class UserView(NamedTuple):
    """The user, the directories of the run that the user can reach in any case, and the literal paths."""

    user: SystemUser
    shown: tuple[str, ...]
    plan: Plan = Plan((), (), ())

    def enter(self) -> None:
        """Enter from the process that becomes the command, and become the user. Raises OSError."""
        namespaces.own_disk_view()
        for directory in sorted({closed for path in self.shown for closed in self._closed(path)}):
            show_only(directory, [path for path in self.shown if path.startswith(f"{directory}/")])
        carry_out(self.plan, opening_as=self.user)
        system_users.become(self.user)

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
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

    def _closed(self, path: str) -> tuple[str, ...]:
        """The outermost directory above a path that the user may not pass, if there is one."""
        above = path
        found: tuple[str, ...] = ()
        while above != "/":
            above = os.path.dirname(above)
            if not self.user.may_pass(above):
                found = (above,)
        return found

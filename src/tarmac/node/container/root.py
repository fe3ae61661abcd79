"""Makes the root file system of a container, and the way into it. Called by the hook `image`.

A temporary process makes a mount namespace (for a user other than root: with a user namespace, in which the
user is called root), assembles the root there, and enters it; the namespaces exist while they are held open.
The root is an overlay: the layers of the image, read-only and shared by all attempts, below a directory of
the attempt's own. It contains the node's devices that the container gets, and the directories of the attempt
under their own paths. After the old root is unmounted, names and links of the image cannot lead out of it.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Optional

from tarmac.node.container.entry import Container, ContainerImage
from tarmac.node.files import untrusted
from tarmac.node.kernel import mounts, namespaces, syscalls
from tarmac.node.kernel.handles import fork
from tarmac.node.kernel.mountplan import FILE, Bind

_PLAIN = syscalls.MS_NOSUID | syscalls.MS_NODEV
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_STREAMS = (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"))
_LINKS = (*_STREAMS, ("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx"))
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/acpi", "/proc/scsi")
_COPIES = ("/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
_MOST_OPTIONS_BYTES = 4096

_MOST_COPY_BYTES = 1024 * 1024
_DONE = b"done"
_DONE_AS_USER = b"done as user"


class Root(NamedTuple):
    """A root to make: an overlay of `layers` (below `base`, the topmost first) under `place`, and its binds.

    `in_memory`: writes outside the binds stay in memory, not in `place`. The container gets `devices` besides
    the usual ones; `shared_memory_bytes` None: the node's limit. `users` is an open user namespace in which
    to make it; None: a user other than root gets a new one.
    """

    place: str
    binds: tuple[Bind, ...] = ()
    base: str = "/"
    layers: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    shared_memory_bytes: Optional[int] = None
    in_memory: bool = False
    users: Optional[int] = None


class CannotMake(Exception):
    """This node does not allow making the root."""


def make(root: Root, image: ContainerImage) -> Container:
    """Make the root of an image and the way into it.

    Raises CannotMake, or OSError if the fork fails.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        pid = fork(partial(_build_and_hold, root, ours, theirs))
    try:
        reply = ours.recv(4096)
        if reply not in (_DONE, _DONE_AS_USER):
            raise CannotMake(reply.decode("utf-8", "replace") or "the process that makes it ended early")
        users = _open_namespace(pid, "user") if reply == _DONE_AS_USER else None
        return Container(_open_namespace(pid, "mnt"), users, image)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _open_namespace(pid: int, kind: str) -> int:
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _build_and_hold(root: Root, parents: socket.socket, own: socket.socket) -> None:
    """In the child: build, report the result, and wait until the parent holds the namespaces."""
    parents.close()
    try:
        own.sendall(_DONE_AS_USER if _build(root) else _DONE)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        own.sendall(f"{error.strerror or error}{where}".encode())
    except CannotMake as problem:
        own.sendall(str(problem).encode())
    except Exception as error:  # noqa: BLE001 - whatever it is, its maker has to hear of it
        own.sendall(f"{type(error).__name__}: {error}".encode())
    own.recv(1)


def _build(root: Root) -> bool:
    """Make the root; returns whether it is in a new user namespace."""
    as_user = os.geteuid() != 0
    if root.users is not None:
        syscalls.join_namespace(root.users, syscalls.CLONE_NEWUSER)
        syscalls.unshare(syscalls.CLONE_NEWNS)
    elif not as_user:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS)
        except PermissionError:  # root of a container that lacks that privilege
            as_user = True
    if as_user and root.users is None:
        namespaces.become_own_root(syscalls.CLONE_NEWNS, as_root=True)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    copies: dict[str, bytes] = {}
    for path in _COPIES:
        with suppress(OSError), open(path, "rb") as file:
            copies[path] = file.read(_MOST_COPY_BYTES)
    sources = [os.open(bind.source, os.O_PATH | os.O_CLOEXEC) for bind in root.binds]
    devices = [*(f"/dev/{name}" for name in _DEVICES), *root.devices]
    shown = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in devices if os.path.exists(path)]
    merged = _overlay(root)
    old = f"/.tarmac-{os.urandom(8).hex()}"
    os.mkdir(merged + old, 0o700)
    syscalls.pivot_root(merged, merged + old)
    os.chdir("/")
    _show_devices(shown, old, root.shared_memory_bytes)
    for path, content in copies.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        untrusted.write_new(path, content)  # in place of the image's
    for bind, source in zip(root.binds, sources):  # noqa: B905 - one for each
        _bind(f"{old}/proc/self/fd/{source}", bind.target)
        if bind.read_only:
            mounts.make_read_only(bind.target, f"{old}/proc")
    _make_usual()
    # Last, since files are made here: until now links could lead out by /proc/1/root and /proc/self/fd.
    _show_kernel(old)
    syscalls.unmount(old)
    os.rmdir(old)
    return as_user


def _overlay(root: Root) -> str:
    """Mount the overlay; returns its path."""
    place = root.place
    os.makedirs(place, mode=0o700, exist_ok=True)
    if root.in_memory:
        syscalls.mount("tarmac", place, "tmpfs", _PLAIN, "mode=700")
    upper, work, merged = (os.path.join(place, name) for name in ("upper", "work", "merged"))
    for path in (upper, work, merged):
        os.makedirs(path, mode=0o755, exist_ok=True)
    os.chdir(root.base)
    lower = ":".join(map(_escaped, root.layers))
    options = f"userxattr,lowerdir={lower},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    if len(os.fsencode(options)) >= _MOST_OPTIONS_BYTES:
        raise CannotMake(f"its {len(root.layers)} layers are more than one mount takes: build it of fewer")
    syscalls.mount("overlay", merged, "overlay", _PLAIN, options)
    return merged


def _show_kernel(old: str) -> None:
    """Mount the runner's /proc (of its process namespace, if it has one), and /sys."""
    _bind(f"{old}/sys", "/sys")
    _bind(f"{old}/proc", "/proc")
    with suppress(OSError):  # a user namespace may not unmount these, nor may its user
        mounts.make_read_only("/sys")
    null = f"{old}/dev/null"
    for path in _READ_ONLY:
        if os.path.exists(path):
            _bind(path, path)
            with suppress(PermissionError):
                mounts.make_read_only(path)
    for path in _HIDDEN:
        with suppress(FileNotFoundError):
            if os.path.isdir(path):
                syscalls.mount("tarmac", path, "tmpfs", _PLAIN | syscalls.MS_RDONLY, "size=0")
            elif os.path.exists(path):
                syscalls.mount(null, path, "", syscalls.MS_BIND)


def _show_devices(devices: list[tuple[str, int]], old: str, shared_memory_bytes: Optional[int]) -> None:
    """Make a /dev with a few devices of the node, and shared memory that ends with the attempt."""
    os.makedirs("/dev", exist_ok=True)
    syscalls.mount("tarmac", "/dev", "tmpfs", syscalls.MS_NOSUID, "size=64k,mode=755")
    for path, handle in devices:
        _bind(f"{old}/proc/self/fd/{handle}", path)
    if os.path.isdir(f"{old}/dev/pts"):
        _bind(f"{old}/dev/pts", "/dev/pts")
    for name, target in _LINKS:
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm", 0o1777)
    size = "" if shared_memory_bytes is None else f",size={shared_memory_bytes}"
    syscalls.mount("tarmac", "/dev/shm", "tmpfs", _PLAIN, f"mode=1777{size}")


def _bind(source: str, target: str) -> None:
    """Bind a source to a target, which is made if it is missing."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        mounts.make_placeholder(target, FILE)
    mounts.bind_mount(source, target)


def _make_usual() -> None:
    """Make directories and links that programs expect and a small image may lack."""
    for path, mode in (("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/root", 0o700), ("/run", 0o755)):
        if not os.path.isdir(path):
            with suppress(OSError):  # for example a dangling link
                os.makedirs(path)
                os.chmod(path, mode)


def _escaped(path: str) -> str:
    """Escape a path for the options of an overlay."""
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")

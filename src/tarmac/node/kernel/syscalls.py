"""System calls that Python does not offer, and a queue of events in directories made of them.

Called by the runner's own modules, and by the sidecar of artifacts.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from typing import Collection, Iterable, Iterator, NamedTuple, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITIES_3 = 0x20080522
_HIGHEST_CAPABILITY = 63
_NS_GET_USERNS = 0xB701
_WITHOUT_GROWING = 1  # FALLOC_FL_KEEP_SIZE
_HOLE = 2  # FALLOC_FL_PUNCH_HOLE
_SIGNAL_SET_BYTES = 128
_SIGNAL_INFO_BYTES = 128

CAP_DAC_READ_SEARCH = 2
CAP_SIGNAL = 5

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000

MNT_DETACH = 2

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

IN_ACCESS = 0x1
IN_CLOSE_WRITE = 0x8
IN_CLOSE_NOWRITE = 0x10
IN_OPEN = 0x20
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x01000000
IN_ISDIR = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.capget.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.setfsuid.argtypes = _libc.setfsgid.argtypes = [ctypes.c_uint]
_libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
_libc.unshare.argtypes = [ctypes.c_int]
_libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
_libc.sigaddset.argtypes = [ctypes.c_char_p, ctypes.c_int]
_libc.signalfd.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.inotify_init1.argtypes = [ctypes.c_int]
_libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]


class SignalInfo(NamedTuple):
    """A signal and the pid of its sender; 0: a process outside this namespace, or the kernel."""

    number: int
    sender: int


def become_subreaper() -> None:
    """Make orphaned descendants children of this process from now on."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(number: int) -> None:
    """Ask the kernel to send this process a signal when its parent ends. Check the parent afterwards."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def rename_self(name: str) -> None:
    """Rename this process (its first thread), to at most 15 bytes: only the process itself can do that."""
    buffer = ctypes.create_string_buffer(name.encode())
    _check(_libc.prctl(_PR_SET_NAME, ctypes.addressof(buffer), 0, 0, 0), "prctl")


def control(operation: int, value: int, *, optional: bool = False) -> None:
    """Call prctl(2) with one value; `optional`: ignore kernels that lack the operation."""
    result = _libc.prctl(operation, value, 0, 0, 0)
    if not optional:
        _check(result, "prctl")


def limit_capabilities(numbers: Collection[int]) -> None:
    """Drop every capability of this process except these, also for programs that it executes."""
    for number in range(_HIGHEST_CAPABILITY + 1):
        if number not in numbers:
            control(_PR_CAPBSET_DROP, number, optional=True)  # an older kernel lacks some
    kept = _capabilities()[1] & sum(1 << number for number in numbers)
    _set_capabilities(kept, kept, 0)


def has_capabilities() -> bool:
    """Whether this process has a capability, or could take one."""
    effective, permitted, _ = _capabilities()
    return bool(effective or permitted)


def use_capabilities(numbers: Optional[Collection[int]]) -> None:
    """Use only these of the capabilities that this thread could take (None: all), until the next call."""
    _, permitted, inheritable = _capabilities()
    effective = permitted if numbers is None else permitted & sum(1 << number for number in numbers)
    _set_capabilities(effective, permitted, inheritable)


def _capabilities() -> tuple[int, int, int]:
    """The effective, permitted and inheritable capabilities of this thread."""
    header, data = struct.pack("<Ii", _CAPABILITIES_3, 0), ctypes.create_string_buffer(24)
    _check(_libc.capget(header, data), "capget")
    parts = struct.unpack("<6I", data.raw)
    return (parts[0] | parts[3] << 32, parts[1] | parts[4] << 32, parts[2] | parts[5] << 32)


def _set_capabilities(*sets: int) -> None:
    parts = (each >> shift & 0xFFFFFFFF for shift in (0, 32) for each in sets)
    header = struct.pack("<Ii", _CAPABILITIES_3, 0)
    _check(_libc.capset(header, struct.pack("<6I", *parts)), "capset")


_KEEP = 0xFFFFFFFF
"""No user: the kernel changes nothing, and answers the present one."""


def set_file_user(user: int, group: int) -> None:
    """Give this thread the rights of a user and a group to files. Raises OSError if the kernel does not."""
    _libc.setfsgid(group)
    _libc.setfsuid(user)
    if (_libc.setfsuid(_KEEP), _libc.setfsgid(_KEEP)) != (user, group):
        raise PermissionError(errno.EPERM, f"files cannot be used as user {user}")


def file_user() -> int:
    """The user with whose rights this thread uses files."""
    return int(_libc.setfsuid(_KEEP))


def renounce_privileges() -> None:
    """Prevent executed programs from gaining privileges: no set-user-ID, no file capabilities."""
    control(_PR_SET_NO_NEW_PRIVS, 1)


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones."""
    _check(_libc.unshare(flags), "unshare")


def join_namespace(handle: int, kind: int) -> None:
    """Enter an open namespace; a process namespace applies only to later forked processes."""
    _check(_libc.setns(handle, kind), "setns")


def owner_of_namespace(handle: int) -> int:
    """A descriptor of the user namespace that owns a namespace. Raises OSError."""
    return fcntl.ioctl(handle, _NS_GET_USERNS)


def signal_descriptor(numbers: Iterable[int]) -> int:
    """A descriptor that reports these signals, which must be blocked; never waits, closed by exec."""
    mask = ctypes.create_string_buffer(_SIGNAL_SET_BYTES)
    for number in numbers:
        _check(_libc.sigaddset(mask, number), "sigaddset")
    return _natural(_libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC), "signalfd")


def read_signals(handle: int) -> list[SignalInfo]:
    """The waiting signals of a descriptor."""
    try:
        data = os.read(handle, 64 * _SIGNAL_INFO_BYTES)
    except BlockingIOError:
        return []
    starts = range(0, len(data), _SIGNAL_INFO_BYTES)
    return [SignalInfo(*struct.unpack_from("IiiI", data, start)[::3]) for start in starts]


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2)."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), flags, options.encode() or None
    )
    _check(result, f"mount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root of this namespace; the old root appears at `old`, below it."""
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:  # the C library has no function for it, only its number
        raise OSError(errno.ENOSYS, f"pivot_root is not known here for {machine}")
    _check(_libc.syscall(_PIVOT_ROOT[machine], os.fsencode(new), os.fsencode(old)), f"pivot_root {new}")


def unmount(target: str) -> None:
    """Detach a mount; the kernel removes it after its last use."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def reserve(handle: int, size_bytes: int) -> None:
    """Reserve disk space at the start of a file without changing its size; raises OSError."""
    _check(_libc.fallocate(handle, _WITHOUT_GROWING, 0, size_bytes), "fallocate")


def punch(handle: int, offset_bytes: int, size_bytes: int) -> None:
    """Free the disk space of part of a file, which then reads as zeros. Raises OSError."""
    _check(_libc.fallocate(handle, _HOLE | _WITHOUT_GROWING, offset_bytes, size_bytes), "fallocate")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _natural(result: int, what: str) -> int:
    """The result of a call; raises OSError if it is -1."""
    _check(min(result, 0), what)
    return result


_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class Happening(NamedTuple):
    """One event: the watched directory, the kind (bits of `IN_*`), and the name in the directory.

    The two halves of a rename have the same `cookie`.
    """

    watch: int
    mask: int
    cookie: int
    name: str


_OPEN_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class Inotify:
    """One queue of events. Raises OSError if the kernel refuses this user a (further) queue."""

    def __init__(self) -> None:
        self._handle = _natural(_libc.inotify_init1(_OPEN_FLAGS), "inotify_init1")

    def watch(self, directory: str, mask: int) -> int:
        """Report events in a directory from now on; a second call changes the mask. Raises OSError."""
        path = os.fsencode(directory)
        watch = _libc.inotify_add_watch(self._handle, path, mask | IN_ONLYDIR)
        return _natural(watch, "inotify_add_watch")

    def happened(self) -> Iterator[Happening]:
        """All events since the last call, in order; never waits."""
        while self._handle >= 0:
            try:
                data = os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, cookie, length = _HEADER.unpack_from(data, at)
                name = data[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0")
                at += _HEADER.size + length
                yield Happening(watch, mask, cookie, os.fsdecode(name))

    def fileno(self) -> int:
        """A descriptor to wait for, readable after an event; -1 when closed."""
        return self._handle

    def close(self) -> None:
        """Release the queue."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

"""Makes the container of an attempt with the first driver that succeeds. Called by the hook `image`.

`tarmac doctor` and the checks of clusters test by an empty container whether this is possible here.

A container gets the devices of its slots alone, if the node identifies those, and the libraries of their
driver, which belong to the node's kernel, so no image can contain them.

Some distributions allow only selected programs to make a user namespace (AppArmor's profiles), including
Podman: `podman unshare` then makes it. That namespace also provides the ranges of /etc/subuid, so that
programs may run as other users.
"""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from functools import partial
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.container import drivers, root
from tarmac.node.container.drivers import APPTAINER, AUTO, OWN, PODMAN, Facts
from tarmac.node.container.entry import AnyContainer, Apptainer, Container, ContainerImage
from tarmac.node.container.images import Image, Images
from tarmac.node.container.root import CannotMake, Root
from tarmac.node.files.codestore import digest
from tarmac.node.kernel.mountplan import Bind

Note = Callable[[str], None]
"""Notifies the user with a text."""

_HOLD = "echo $$; read -r _"
_MOST_TEXT = 300
_KEY_CHARACTERS = 32
_MOST_ENVIRONMENT_BYTES = 1024 * 1024
_ALL_USERS = ["0", "0", "4294967295"]
_LOGGED = re.compile(r'level=(\w+) msg="(.*)"$')


class Request(NamedTuple):
    """The container to make. `flat` returns the image's files in one directory, see `Images.flat_root`.

    `token` names the variable that identifies the attempt's remaining processes.
    """

    root: Root
    flat: Callable[[], str]
    image: ContainerImage
    token: str


def request_for(
    images: Images, image: Image, use: Optional[int], *, root: Root, slots: Sequence[int], token: str
) -> Request:
    """The container of an image, with the devices of these slots in its root; `use` holds the image."""
    found = devices_of_slots(slots)
    files = (Bind(path, target, read_only=True) for path, target in found.files)
    return Request(
        root=root._replace(
            base=images.layers if image.digest else "/",
            layers=tuple(reversed(image.layers)),
            binds=(*files, *root.binds),
            devices=found.devices,
        ),
        flat=partial(images.flat_root, image),
        token=token,
        image=ContainerImage(
            env={**image.env, **found.env(image.env)},
            numbers=found.numbers,
            key=digest(image.digest or image.layers[0])[:_KEY_CHARACTERS],
            digest=image.digest,
            use=use,
        ),
    )


def make(setting: str, facts: Facts, request: Request, note: Note) -> AnyContainer:
    """Make the container. Raises CannotMake with the reason of each driver that the setting allows."""
    failures: dict[str, str] = {}
    for driver in drivers.choose(setting, facts):
        try:
            made = _MAKERS[driver](facts, request, note)
        except (CannotMake, OSError) as problem:
            failures[driver] = str(problem)
            continue
        if failures and setting == AUTO:
            note(f"the container is made by {driver} ({drivers.explain(OWN, facts, failures)})")
        return made
    raise CannotMake(drivers.explain(setting, facts, failures))


def _own(_facts: Facts, request: Request, note: Note) -> AnyContainer:
    """Make its root on the attempt's disk, or in memory if that disk does not support it."""
    try:
        return root.make(request.root, request.image)
    except CannotMake as problem:
        in_memory = request.root._replace(in_memory=True)
        made = root.make(in_memory, request.image)
        note(f"what is written beside the run's own directories is held in memory ({problem})")
        return made


def _podman(facts: Facts, request: Request, note: Note) -> AnyContainer:
    if is_divided():
        note(
            "runs here have a user namespace already, to which Podman can add no users: tarmac uses that one"
        )
        return _own(facts, request, note)
    runtime = os.path.join(request.root.place, "podman")
    with user_namespace(facts.programs[PODMAN], runtime) as users:
        return _own(facts, request._replace(root=request.root._replace(users=users)), note)


def _apptainer(facts: Facts, request: Request, _note: Note) -> AnyContainer:
    for path in (path for bind in request.root.binds for path in (bind.source, bind.target)):
        if ":" in path or "," in path:  # no option of Apptainer can express it
            raise CannotMake(f"it cannot show {path}, for the ':' or ',' in it")
    return Apptainer(
        program=facts.programs[APPTAINER],
        root=request.flat(),
        binds=request.root.binds,
        accelerators=bool(request.root.devices),
        token=request.token,
        image=request.image,
    )


_MAKERS = {OWN: _own, PODMAN: _podman, APPTAINER: _apptainer}


@contextmanager
def user_namespace(program: str, runtime: str) -> Iterator[int]:
    """A descriptor of the namespace; `runtime`: a directory for Podman alone. Raises CannotMake, OSError."""
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    # Its own directory, so that the pause process of another namespace is never reused.
    env = {**os.environ, "XDG_RUNTIME_DIR": runtime}
    holder = subprocess.Popen(
        [program, "unshare", "sh", "-c", _HOLD],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None and holder.stdin is not None and holder.stderr is not None  # noqa: PT018
        pid = holder.stdout.readline().decode().strip()
        if not pid.isdigit():
            complaint = _plain(holder.stderr.read().decode("utf-8", "replace"))
            raise CannotMake(complaint[-_MOST_TEXT:] or "podman unshare ended early")
        handle = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            os.close(handle)
            holder.stdin.close()
            _end_pause(runtime)


def is_divided(uid_map: str = "/proc/self/uid_map") -> bool:
    """Whether this process is in a user namespace, which cannot provide other users."""
    with suppress(OSError), open(uid_map, encoding="utf-8") as file:
        return file.read().split() != _ALL_USERS
    return False


def _plain(complaint: str) -> str:
    """Podman's message in one line, without warnings and without the fields of its log."""
    found = []
    for line in filter(None, map(str.strip, complaint.splitlines())):
        logged = _LOGGED.search(line)
        if logged is None or logged[1] != "warning":
            found.append(line if logged is None else logged[2].replace('\\"', '"'))
    return "; ".join(found)


def _end_pause(runtime: str) -> None:
    """End the process with which Podman holds its namespace for a next command, as none follows.

    The file with its pid is in the directory of Podman's first use, so the environment identifies the
    process.
    """
    mark = f"XDG_RUNTIME_DIR={runtime}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if mark in file.read(_MOST_ENVIRONMENT_BYTES).split(b"\0"):
                os.kill(int(pid), signal.SIGKILL)


class Trial(NamedTuple):
    """The result of a trial: the driver that succeeded, or the reason of the failure."""

    works: bool
    text: str


def try_container(directory: str, setting: str = AUTO) -> Trial:
    """Make and remove an empty container, like an attempt below that directory."""
    import tempfile  # noqa: PLC0415 - runners do not need it

    facts, notes = drivers.survey(), list[str]()
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix="trial-") as scratch:
            lower, place = os.path.join(scratch, "image"), os.path.join(scratch, "root")
            os.mkdir(lower)
            image = ContainerImage({}, {}, key="trial")
            request = Request(Root(place, layers=(lower,)), lambda: lower, image, token="")
            made = make(setting, facts, request, notes.append)
            text = _text(made, facts)
            made.close()
            made.clear(place)
    except CannotMake as problem:
        return Trial(False, str(problem))
    except OSError as problem:
        return Trial(False, f"{directory}: {problem.strerror}")
    return Trial(True, "; ".join([text, *notes]))


def _text(made: AnyContainer, facts: Facts) -> str:
    if not isinstance(made, Container):
        return f"runs start in their images by {facts.programs[APPTAINER]}"
    if made.users is None:
        return "runs start in their images, made as root"
    although = " although this is root" if facts.root else ""
    return f"runs start in their images, in a user namespace{although}"


LIBRARIES = "/usr/lib/tarmac-driver"
"""The directory of the driver's libraries in the container."""

_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_FABRIC = ("/dev/infiniband",)
_PROGRAMS = ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-debugdump")
_KNOWN = "/proc/driver/nvidia/gpus"
_LIBRARY = re.compile(r"lib(cuda|cudadebugger|nvidia-[a-z0-9-]+|nvcuvid|nvoptix)\.so(\.[0-9.]+)?")
_ENTRY = re.compile(r"^[ \t]{1,8}(\S{1,256}) \((.{0,256})\) => (\S{1,4096})$", re.MULTILINE)


class Devices(NamedTuple):
    """Devices by path, and files of the node with their paths in the container.

    `numbers`: a slot's number in the container, if it differs.
    """

    devices: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    numbers: Mapping[int, int] = {}

    def env(self, image: Mapping[str, str]) -> dict[str, str]:
        """The variables by which programs of an image find the libraries."""
        if not self.files:
            return {}
        paths = [LIBRARIES, *filter(None, [image.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(paths)}


def devices_of_slots(slots: Sequence[int]) -> Devices:
    """The devices for a container with these slots; none if the node has no NVIDIA accelerator."""
    if not slots or not os.path.exists(_CONTROL[0]):
        return Devices()
    shown = [path for path in (*_CONTROL, *_FABRIC) if os.path.exists(path)]
    paths, numbers = device_paths(slots, device_minors(_KNOWN))
    shown += paths or sorted(glob.glob("/dev/nvidia[0-9]*"))
    files = [(path, path) for path in _PROGRAMS if os.path.exists(path)]
    return Devices(tuple(shown), (*files, *driver_libraries(_known_libraries())), numbers)


def device_minors(directory: str) -> Optional[list[int]]:
    """The numbers of the device files, in the driver's order; None if unknown."""
    found = []
    for place in sorted(glob.glob(os.path.join(glob.escape(directory), "*", "information"))):
        try:
            with open(place, encoding="utf-8", errors="replace") as file:
                line = next(line for line in file if line.startswith("Device Minor:"))
            found.append(int(line.split(":")[1]))
        except (OSError, StopIteration, ValueError):
            return None
    return found or None


def driver_libraries(listing: str) -> list[tuple[str, str]]:
    """The driver's libraries in the output of `ldconfig -p`: those of this architecture, each once."""
    found: dict[str, str] = {}
    for name, kind, path in _ENTRY.findall(listing):
        if _LIBRARY.fullmatch(name) and "64" in kind:
            found.setdefault(name, os.path.realpath(path))
    return [(path, f"{LIBRARIES}/{name}") for name, path in found.items()]


def device_paths(slots: Sequence[int], known: Optional[list[int]]) -> tuple[list[str], Mapping[int, int]]:
    """The device files of slots, and the slots' numbers for programs that see only those.

    Empty if the node does not identify the files: then the container gets all.
    """
    if known is None or max(slots) >= len(known):
        return [], {}
    numbers = {slot: number for number, slot in enumerate(sorted(slots))}
    return [f"/dev/nvidia{known[slot]}" for slot in sorted(slots)], numbers


def _known_libraries() -> str:
    try:
        done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")

"""Checks this machine: its Python, the disk of the home, its kernel, and programs that some runs need.

Called by `tarmac doctor`. Each function checks one fact, which is an argument where a test needs another
value.
"""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from tarmac.engines.hosts.slot_types import slot_type
from tarmac.engines.local.nodes import DRIVER_SIGNS, VIRTUAL_SLOTS, gpu_products
from tarmac.model.home import Home
from tarmac.node.container.making import Trial, try_container
from tarmac.node.kernel import mounts, namespaces, workergroup
from tarmac.node.kernel.namespaces import Way
from tarmac.node.kernel.workergroup import Choice


class State(StrEnum):
    """Whether a feature works: fully, not fully, or not at all."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    `meaning` describes the effect on runs and a remedy; it is empty if the check is ok. No run works if a
    `needed` check is missing.
    """

    what: str
    state: State
    text: str
    meaning: str = ""
    needed: bool = False

    @property
    def stops_runs(self) -> bool:
        """Whether it prevents all runs here."""
        return self.needed and self.state is State.MISSING


def ok(what: str, text: str) -> Finding:
    """A feature that works."""
    return Finding(what=what, state=State.OK, text=text)


def warn(what: str, text: str, meaning: str) -> Finding:
    """A feature that works in part, or will soon stop working."""
    return Finding(what=what, state=State.WARN, text=text, meaning=meaning)


def missing(what: str, text: str, meaning: str, *, needed: bool = False) -> Finding:
    """A missing feature."""
    return Finding(what=what, state=State.MISSING, text=text, meaning=meaning, needed=needed)


LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_FILES = 10_000
LEAST_SHARED_BYTES = 1 << 30
LEAST_OPEN_FILES = 1024

SLURM = ("sbatch", "squeue", "scancel", "scontrol", "sacct")
"""Programs that the Slurm engine calls; without the last, it judges ended jobs by their directory alone."""

_LIMIT_S = 10.0

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED_MEMORY = "/dev/shm"
_NETWORK_DISKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "gpfs", "ceph", "9p"})


def machine_findings(home: Home) -> Iterator[Finding]:
    """All findings, in the order in which a run needs them."""
    yield ok("python", f"{sys.version.split()[0]} ({sys.executable})")
    yield from home_findings(home.root)
    yield process_namespace(namespaces.find_way())
    yield mount_namespace(_why_no_mounts())
    yield images(try_container(str(_existing(home.root))))
    yield system_users(os.geteuid())
    yield from limit_findings(workergroup.choose((workergroup.MEMORY, workergroup.CPU), workergroup.survey()))
    yield accelerators(gpu_products(), driver=any(sign.exists() for sign in DRIVER_SIGNS))
    yield shared_memory(_SHARED_MEMORY)
    yield open_files(resource.getrlimit(resource.RLIMIT_NOFILE))


def home_findings(root: Path) -> Iterator[Finding]:
    """Whether the home is writable, has space, and is on a disk suitable for a database."""
    place = _existing(root)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        text = f"{root} cannot be {'written' if place == root else f'made: {place} cannot be written'}"
        yield missing("home", text, "Set TARMAC_HOME to a directory of yours.", needed=True)
        return
    yield ok("home", f"{root}{'' if place == root else ' (not yet there)'}")
    found = os.statvfs(place)
    yield room(found.f_bavail * found.f_frsize)
    if found.f_files:  # btrfs and others report zero
        yield free_files(found.f_favail)
    kind = disk_kind(place, _MOUNTS.read_text(encoding="utf-8", errors="replace"))
    if kind in _NETWORK_DISKS:
        yield warn(
            "disk kind",
            f"{root} is on {kind}",
            "The database needs a local disk: set TARMAC_HOME to one, or have PostgreSQL in the settings.",
        )


def room(free_bytes: int) -> Finding:
    """Free space of the home."""
    meaning = "Checkpoints and logs need more: runs will fail once the disk is full."
    return _left("disk", free_bytes, LEAST_FREE_BYTES, f"{free_bytes / 2**30:.1f} GiB free", meaning)


def free_files(count: int) -> Finding:
    """The number of files that can still be created on the disk of the home."""
    meaning = "Each attempt copies the files of its code: remove files from this disk."
    return _left("inodes", count, LEAST_FREE_FILES, f"{count:,} files can be made", meaning)


def _left(what: str, amount: int, least: int, text: str, meaning: str) -> Finding:
    if amount == 0:
        return missing(what, text, "No run can be accepted: remove files from this disk.", needed=True)
    return warn(what, text, meaning) if amount < least else ok(what, text)


def disk_kind(path: Path, mountinfo: str) -> str:
    """The file system type of a path, from the text of /proc/self/mountinfo; "" if unknown."""
    resolved = path.resolve()
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if resolved.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind


def process_namespace(way: Way) -> Finding:
    """Whether a run sees and reaches only its own processes."""
    if way.by is not None:
        return ok("process namespace", f"each attempt has its own, {way.by}")
    return warn(
        "process namespace",
        f"none: {way.why_not}",
        "A pkill in a run reaches the user's other processes; a run is ended by other means.",
    )


def mount_namespace(why_not: str) -> Finding:
    """Whether literal paths can be mounted."""
    if not why_not:
        return ok("mount namespace", "paths such as /mnt/checkpoints are made true for each run")
    return warn(
        "mount namespace",
        f"none: {why_not}",
        "Paths such as /mnt/checkpoints lead nowhere: use CHECKPOINT_ARTIFACT_PATH and its like.",
    )


def system_users(uid: int) -> Finding:
    """Whether a server of this user runs runs as other system users."""
    where = (
        "here, and on Slurm over a connection of the user's own" if uid == 0 else "on Slurm behind SSH alone"
    )
    elsewhere = "on Ray where its agents are root (tarmac clusters check NAME)"
    return ok("system users", f"runs of an account with a system user run as that user {where}; {elsewhere}")


def images(trial: Trial) -> Finding:
    """Whether runs can start in their images."""
    if trial.works:
        return ok("images", trial.text)
    meaning = (
        "A run that names an image ends with this reason: --no-container starts it without. Let users make "
        "user namespaces (Linux 5.11 or later), or install podman or apptainer."
    )
    return missing("images", trial.text, meaning)


def limit_findings(choice: Choice) -> Iterator[Finding]:
    """Whether the kernel enforces `memory` and `cpus` of a run file."""
    for what, kind, meaning in _LIMITS:
        if place := choice.places.get(kind):
            yield ok(what, f"by the kernel (control groups, version {place.version})")
        else:
            yield warn(what, choice.why_not[kind], meaning)


_LIMITS = (
    (
        "memory limits",
        workergroup.MEMORY,
        "What a run file asks for is watched twice a second: a worker above it is ended.",
    ),
    ("cpu limits", workergroup.CPU, "The cpus that a run file asks for are placed, but not enforced."),
)


def accelerators(products: Sequence[str], *, driver: bool) -> Finding:
    """The accelerators that NVML reports."""
    if products:
        kinds = {product: slot_type(product) for product in products}
        counted = (f"{products.count(product)} x {product} ({kind})" for product, kind in kinds.items())
        return ok("gpus", ", ".join(counted))
    virtual = f"This machine offers {VIRTUAL_SLOTS} virtual slots, and training is on the CPU"
    if driver:
        meaning = f"{virtual}: try nvidia-smi, which asks the same library."
        return warn("gpus", "there is a driver of NVIDIA, and its library (NVML) shows no GPU", meaning)
    return missing("gpus", "no driver of NVIDIA", f"{virtual}.")


def shared_memory(path: str) -> Finding:
    """The space of shared memory, through which data loaders and NCCL pass data."""
    try:
        found = os.statvfs(path)
    except OSError as error:
        meaning = "Data loaders with workers and NCCL will fail."
        return missing("shared memory", f"{path}: {(error.strerror or str(error)).lower()}", meaning)
    size_bytes = found.f_blocks * found.f_frsize
    text = f"{size_bytes / 2**30:.1f} GiB in {path}"
    if size_bytes < LEAST_SHARED_BYTES:
        meaning = (
            "Data loaders with workers and NCCL may fail with a bus error. In a container: --shm-size=8g; "
            f"else, as root: mount -o remount,size=8g {path}"
        )
        return warn("shared memory", text, meaning)
    return ok("shared memory", text)


def open_files(limit: tuple[int, int]) -> Finding:
    """The limit on open files per process."""
    soft, hard = ("no limit" if value == resource.RLIM_INFINITY else f"{value:,}" for value in limit)
    text = f"{soft} (may be raised to {hard})"
    if limit[0] != resource.RLIM_INFINITY and limit[0] < LEAST_OPEN_FILES:
        meaning = (
            "Many data loader workers need more. Runs have the limit of the server: ulimit -n 65536, then "
            "tarmac server restart."
        )
        return warn("open files", text, meaning)
    return ok("open files", text)


def _existing(path: Path) -> Path:
    """The path, or its nearest existing ancestor."""
    return next(each for each in (path, *path.parents) if each.exists())


def _why_no_mounts(enter: Callable[[], None] = mounts.enter_own_view) -> str:
    """The reason why mounting fails in a temporary process; empty if it works."""
    hear, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            enter()
        except OSError as error:
            os.write(say, (error.strerror or str(error)).lower().encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(hear, "rb") as heard:
        reply = heard.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return reply


def program_findings(*, ray_elsewhere: bool = False) -> Iterator[Finding]:
    """All findings. `ray_elsewhere`: every Ray cluster names a Python of its own."""
    yield _program(
        "ssh", "-V", without="Clusters over SSH and private repositories need it: install an OpenSSH client."
    )
    yield _program("git", "--version", without="Code and setup steps from repositories need it: install git.")
    yield slurm({name for name in SLURM if shutil.which(name)})
    yield ray(_installed("ray"), elsewhere=ray_elsewhere)


def slurm(found: set[str]) -> Finding:
    """The commands of a Slurm on this machine."""
    if not found:
        meaning = (
            "A Slurm is reached from a machine with its commands, or over SSH: "
            "tarmac clusters add NAME --engine slurm --set ssh=USER@LOGIN."
        )
        return missing("slurm", "no sbatch in PATH", meaning)
    absent = [name for name in SLURM if name not in found]
    if absent:
        meaning = (
            "A cluster with engine: slurm on this machine needs them: install the rest of Slurm's client."
        )
        return warn("slurm", f"no {', '.join(absent)} in PATH", meaning)
    works, text = _version("sbatch", "--version")
    if not works:
        meaning = "Its commands are here and do not work: a slurm.conf that they find is needed (SLURM_CONF)."
        return warn("slurm", text, meaning)
    return ok("slurm", text)


def ray(version: str | None, *, elsewhere: bool) -> Finding:
    """The package Ray in this Python; `elsewhere`: no cluster needs it here."""
    if version is not None:
        return ok("ray", version)
    if elsewhere:
        return ok("ray", "in the Python that each cluster of Ray names")
    meaning = (
        "Clusters of Ray need it in the server's Python (pip install ray), or name one that has it: "
        "tarmac clusters add NAME --engine ray --set python=PATH."
    )
    return missing("ray", f"not installed in {sys.executable}", meaning)


def _program(name: str, option: str, *, without: str) -> Finding:
    if shutil.which(name) is None:
        return missing(name, f"no {name} in PATH", without)
    works, text = _version(name, option)
    return ok(name, text) if works else warn(name, text, f"{name} {option} should say its version.")


def _version(name: str, option: str) -> tuple[bool, str]:
    """Whether a program reports its version, with the first line of that, else with its path."""
    try:
        output = subprocess.run(
            [name, option],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (output.stdout or output.stderr).strip().splitlines()
    return output.returncode == 0, lines[0].strip() if lines else str(shutil.which(name))


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

"""The SDK inside a run: `import tarmac` in a training script gives these seven functions.

It works without network, through files that the runner names in the environment, and also outside a run, so
that the same script runs anywhere: then `should_pause()` is False, `time_left()` is None, `parameters()` is
empty, `report` and `finished` do nothing, `checkpoint()` writes below ./checkpoints, and
`latest_checkpoint()` is None (a script never resumes unexpectedly).

A process that calls `should_pause()` (or `time_left()`) gets no signal for a pause, nor do its peers: see
`polls`.

With several workers, one (rank 0) saves and reports, and all must agree on `should_pause()` before they leave
a loop with collective operations, for instance by an all_reduce of rank 0's answer.

At a process's first report or request the SDK also checks, once, the world size of torch, JAX or Horovod if
one is loaded: `accelerate launch --num_machines 2` without an address trains each group alone, and exits with
0. The hook `watch` notifies the user.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional

from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import flush
from tarmac.node.progress import polls

_OUTSIDE = "checkpoints"
_PARAMETERS_VARIABLE = "TARMAC_PARAMETERS"

_LAUNCHER = "TARMAC_LAUNCHER"
_MPI_SIZE = "OMPI_COMM_WORLD_SIZE"
_TRAIN_TOGETHER = ("torch", "deepspeed", "accelerate", "jax", "horovod")
_WITHOUT_TORCH = ("jax", "horovod")
"""Launchers whose processes must be one world; those of others may work alone."""


def should_pause() -> bool:
    """True after a request to leave: save a checkpoint and exit with 0. Cheap: call it every step."""
    path = os.environ.get(protocol.PAUSE_VARIABLE)
    if path is None:
        return False
    poll = polls.hold(os.environ.get(protocol.POLL_VARIABLE))
    if not os.path.exists(path):
        return False
    polls.note_heard(poll)
    return True


def time_left() -> Optional[float]:
    """Seconds until the run's turn, block, time limit or job ends; None without such a limit.

    0 after a request to leave, or after that time: the run may still continue for a while. A request may come
    earlier, if a person or a more urgent run needs the slots. Cheap: call it every step.
    """
    if should_pause():
        return 0.0
    leave_at = os.environ.get(protocol.LEAVE_VARIABLE)
    return None if leave_at is None else max(0.0, float(leave_at) - time.time())


def parameters() -> Dict[str, Any]:
    """The parameters of this run: `parameters()["lr"]`; of a trial, those chosen by its search."""
    path = os.environ.get(_PARAMETERS_VARIABLE)
    if path is None:
        return {}
    found: Dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def report(
    step: Optional[int] = None, progress: Optional[float] = None, *, group: str = "training", **metrics: Any
) -> None:
    """Report numbers of this run: `report(step=100, progress=0.5, loss=0.31)`; progress is from 0 to 1.

    `group` separates metrics of one name: `report(step=100, group="validation", loss=0.35)`. Reports never
    disturb training: one that cannot be written (a full disk) is dropped. Only for a run with `stop_on_nan`,
    a metric that is not finite ends the process with exit code 1, after the report.
    """
    path = os.environ.get(protocol.REPORTS_VARIABLE)
    if path is not None:
        _check_own_world()
        record = {
            "at": round(time.time(), 6),
            "rank": int(os.environ.get("RANK") or os.environ.get("NODE_RANK") or 0),
            "step": None if step is None else int(step),
            "group": str(group),
            "progress": None if progress is None else _plain(progress),
            "metrics": {name: _plain(value) for name, value in metrics.items()},
        }
        line = json.dumps(record).encode() + b"\n"
        with suppress(OSError), open(path, "ab", buffering=0) as file:
            file.write(line)  # one write, so lines of several workers never mix
    if os.environ.get(protocol.STOP_ON_NAN_VARIABLE) == "1":
        for name, value in metrics.items():
            if _plain(value) in protocol.NOT_FINITE:
                where = "" if step is None else f" at step {step}"
                raise SystemExit(f"tarmac: {name} is {_plain(value)}{where}, and the run asks to stop_on_nan")


@contextmanager
def checkpoint(step: Optional[int] = None, *, keep: Optional[int] = None) -> Iterator[Path]:
    """A directory to save into, which becomes the latest checkpoint completely or not at all.

        with tarmac.checkpoint(step) as directory:
            torch.save(state, directory / "state.pt")

    On normal exit it is flushed to the disk, named step-N and made the latest; after an exception, or if the
    process dies inside, it never becomes visible. Without a step the number follows the highest existing one.
    `keep` is the number of checkpoints that remain; older ones are removed.
    """
    _check_own_world()
    root = _checkpoints()
    root.mkdir(parents=True, exist_ok=True)
    draft = root / f"{_unfinished()}{time.time_ns()}"
    draft.mkdir()
    try:
        yield draft
        _write_through(draft)
        name = _take_name(root, draft, step)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    _point_latest(root, name)
    if keep is not None:
        _drop_old(root, keep=max(1, keep))


def latest_checkpoint() -> Optional[Path]:
    """The directory of this run's newest complete checkpoint, from any attempt; None at first."""
    if protocol.CHECKPOINT_VARIABLE not in os.environ:
        return None
    root = _checkpoints()
    try:
        found = root / os.readlink(root / protocol.LATEST)
    except OSError:
        return None
    return found if found.is_dir() else None


def finished() -> None:
    """Report that the work is done: the run is then completed, regardless of the exit code of this process.

    This defines the meaning of exit code 0 after a request to pause: done, or to be resumed.
    """
    path = os.environ.get(protocol.FINISHED_VARIABLE)
    if path is not None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))


def _checkpoints() -> Path:
    return Path(os.environ.get(protocol.CHECKPOINT_VARIABLE) or _OUTSIDE)


def _unfinished() -> str:
    """The prefix of a draft: the runner removes drafts of its own node and of older attempts."""
    attempt = os.environ.get("TARMAC_ATTEMPT", "0")
    rank = os.environ.get("NODE_RANK", "0")
    return f"{protocol.unfinished_prefix(attempt, rank)}{os.getpid()}."


def _plain(value: Any) -> object:
    """A number or text for JSON; tensors and arrays of one number become that number."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else str(number)


def _write_through(directory: Path) -> None:
    """Flush a directory and its content to the disk."""
    for place, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                flush(path)
        flush(place)


def _take_name(root: Path, draft: Path, step: Optional[int]) -> str:
    """Give the draft its visible name; an existing checkpoint of the same step never changes."""
    number = _highest(root) + 1 if step is None else int(step)
    name = first = f"{protocol.STEP_PREFIX}{number}"
    for again in count(2):
        try:
            os.rename(draft, root / name)
            break
        except OSError:
            if not (root / name).exists():
                raise
            name = f"{first}.{again}"
    flush(root)
    return name


def _highest(root: Path) -> int:
    names = (name for name in os.listdir(root) if name.startswith("step-"))
    numbers = [name[len("step-") :].split(".")[0] for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _point_latest(root: Path, name: str) -> None:
    link = root / f"{_unfinished()}latest"
    link.unlink(missing_ok=True)
    os.symlink(name, link)  # relative, since the directory has several paths
    os.replace(link, root / protocol.LATEST)
    flush(root)


def _drop_old(root: Path, *, keep: int) -> None:
    """Remove the oldest; hidden first, so that an incomplete removal is never seen as a checkpoint."""
    latest = os.readlink(root / protocol.LATEST)
    found = [path for path in root.glob("step-*") if path.is_dir() and path.name != latest]
    found.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in found[: max(0, len(found) - (keep - 1))]:
        rubbish = root / f"{_unfinished()}old.{path.name}"
        os.rename(path, rubbish)
        shutil.rmtree(rubbish, ignore_errors=True)


@lru_cache(maxsize=1)
def _check_own_world() -> None:
    """Check this process's world, once, during training: by then it has joined one."""
    check_world(os.environ)


def check_world(environment: Mapping[str, str]) -> None:
    """Record a difference between this process's world and its run's, unless another process did."""
    path = environment.get(protocol.WORLD_VARIABLE)
    message = world_mismatch(environment, sys.modules) if path is not None else None
    if path is None or message is None or os.path.exists(path):
        return
    with suppress(OSError):
        untrusted.write_new(path, message.encode())


def world_mismatch(environment: Mapping[str, str], modules: Mapping[str, Any]) -> Optional[str]:
    """The fault in this process's world; None if there is none, or it is unknown."""
    found = world_size(modules)
    launcher = environment.get(_LAUNCHER, "")
    if launcher in _TRAIN_TOGETHER:
        needed = int(environment.get("WORLD_SIZE", "1"))
        if found is None and launcher not in _WITHOUT_TORCH and "torch" in modules:
            found = 1
        if found is None or found == needed:
            return None
        return f"a process trains in a world of {found}, and the run has {needed} processes{_ADVICE}"
    if launcher == "mpi":
        found, needed = (int(environment.get(name, "0")) for name in (_MPI_SIZE, "WORLD_SIZE"))
        if found in (0, needed):
            return None
        return f"mpirun started {found} processes, and the run has {needed} slots{_ADVICE}"
    nodes = int(environment.get("NNODES", "1"))
    if found is None or found >= nodes:  # processes that a command starts on a node are its own matter
        return None
    return f"a process trains in a world of {found}, and the run has {nodes} nodes{_ADVICE}"


_ADVICE = ": they do not train together, unless that is meant"


def world_size(modules: Mapping[str, Any]) -> Optional[int]:
    """The number of processes in this one's world, by torch, JAX or Horovod; None if none has one."""
    torch = modules.get("torch.distributed")
    with suppress(Exception):  # another version of a library may raise anything
        if torch is not None and torch.is_available() and torch.is_initialized():
            return int(torch.get_world_size())
    jax = modules.get("jax._src.distributed")
    with suppress(Exception):
        if jax is not None and jax.global_state.num_processes:
            return int(jax.global_state.num_processes)
    for horovod in filter(None, map(modules.get, ("horovod.torch", "horovod.tensorflow", "horovod.keras"))):
        with suppress(Exception):
            if horovod.is_initialized():
                return int(horovod.size())
    return None

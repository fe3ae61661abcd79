"""Ways in which programs save checkpoints, as scripts for `checkpoint_torture.py`.

Each script finds its newest checkpoint as naively as people do, checks its content, says `found STEP` in the
ledger (`torn ...` if the content is not whole), and then saves step after step. A ledger lies outside of all
that is kept: `begin STEP` before something that was saved is written over, `saved STEP AT` once a save is
finished. So what must be there afterwards is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkpoint_framework_ways import ASSEMBLED, RENAMED_DIRECTORIES, TEXT_IN_PLACE

COMMON = '''
import glob, os, random, signal, subprocess, sys, time, zipfile

ROOT = os.environ["CHECKPOINT_ARTIFACT_PATH"]
RANK = int(os.environ.get("LOCAL_RANK", "0"))
LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
PIECES = 8

def at(name):
    return os.path.join(ROOT, name)

def note(*words):
    os.write(LEDGER, (" ".join(str(word) for word in words) + "\\n").encode())

def pieces(step, size=20000):
    """Raw content: each piece says which step it is of; the last one ends it."""
    for number in range(PIECES):
        end = b"END" if number == PIECES - 1 else b"---"
        yield (b"\\0%d %d " % (step, number)) + os.urandom(size) + end

def write(path, step):
    """As torch.save writes it: an archive, piece by piece, with its contents at its end."""
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for number, piece in enumerate(pieces(step)):
            archive.writestr(f"{step}/{number}", piece)
            file.flush()
            time.sleep(PAUSE_S)

def check(path):
    """The step of a whole archive; 0 where there is none; -1, and says so, if it is torn."""
    if not os.path.exists(path):
        return 0
    try:
        with zipfile.ZipFile(path) as archive:
            (step,) = {int(name.split("/")[0]) for name in archive.namelist()}
            assert archive.testzip() is None and len(archive.namelist()) == PIECES
    except (ValueError, AssertionError, zipfile.BadZipFile) as error:
        note("torn", path, repr(error)[:80])
        return -1
    return step

def check_raw(path):
    """The same for raw content."""
    if not os.path.exists(path):
        return 0
    data = open(path, "rb").read()
    try:
        step = int(data[1:40].split(b" ")[0])
        for number in range(PIECES):
            head = b"\\0%d %d " % (step, number)
            end = len(head) + 20000 + 3
            assert data.startswith(head) and data[end - 3:end] in (b"END", b"---"), number
            data = data[end:]
        assert not data
    except (ValueError, AssertionError, IndexError) as error:
        note("torn", path, repr(error)[:80])
        return -1
    return step

def number_of(path):
    return int("".join(filter(str.isdigit, os.path.basename(path))) or 0)

def newest(pattern):
    """The path with the highest number, as found by its name alone."""
    return max(glob.glob(at(pattern)), key=number_of, default=at("none"))

def prune(pattern, keep=3):
    paths = sorted(glob.glob(at(pattern)), key=number_of)
    for path in paths[:-keep]:
        subprocess.run(["rm", "-rf", path]) if os.path.isdir(path) else os.unlink(path)

PAUSE_S = random.choice((0.0, 0.002, 0.01))

def go(find, save, overwrites=False):
    step = find()
    note("found", step)
    print("found", step, flush=True)
    while True:
        step = max(step, 0) + 1
        if overwrites:
            note("begin", step)
        save(step)
        note("saved", step, time.monotonic())
        time.sleep(random.uniform(0, 0.1))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of saving. `launcher` goes before the script; `heavy` ones import torch and are played less.

    `bare`: neither a name nor the content shows that a file is whole.
    """

    body: str
    launcher: str = ""
    heavy: bool = False
    bare: bool = False


RENAMED = """
def save(step):
    write(at("model.tmp"), step)
    os.replace(at("model.tmp"), at("model.pt"))
go(lambda: check(at("model.pt")), save)
"""

LINKED = """
def save(step):
    write(at(f"draft"), step)
    os.link(at("draft"), at(f"model_{step}.pt"))
    os.unlink(at("draft"))
    prune("model_*.pt")
go(lambda: check(newest("model_*.pt")), save)
"""

SWAPPED = """
def save(step):
    os.makedirs(at("new"), exist_ok=True)
    for name in ("model", "optimizer"):
        write(at(f"new/{name}"), step)
    os.rename(at("new"), at(f"checkpoint-{step}"))
    prune("checkpoint-*")
def find():
    path = newest("checkpoint-*")
    steps = {check(f"{path}/model"), check(f"{path}/optimizer")}
    if len(steps) > 1:
        note("torn", path, steps)
    return min(steps)
go(find, save)
"""

ATOMIC = """
def save(step):
    path = at(f"AtomicDirectory_checkpoint_{step}")
    os.makedirs(path, exist_ok=True)
    write(f"{path}/model", step)
    write(f"{path}/optimizer", step)
    os.symlink(path, at("AtomicDirectory.latest_checkpoint_temp"))
    os.replace(at("AtomicDirectory.latest_checkpoint_temp"), at("AtomicDirectory.latest_checkpoint"))
    prune("AtomicDirectory_checkpoint_*")
def find():
    if os.path.islink(at("AtomicDirectory.latest_checkpoint_temp")):
        os.unlink(at("AtomicDirectory.latest_checkpoint_temp"))
    path = at("AtomicDirectory.latest_checkpoint")
    if not os.path.islink(path):
        return 0
    steps = {check(f"{path}/model"), check(f"{path}/optimizer")}
    if len(steps) > 1:
        note("torn", path, steps)
    return min(steps)
go(find, save)
"""

IN_PLACE = """
go(lambda: check(at("model.pt")), lambda step: write(at("model.pt"), step), overwrites=True)
"""

BY_STEP = """
def save(step):
    write(at(f"model_{step}.pt"), step)
    prune("model_*.pt")
go(lambda: check(newest("model_*.pt")), save)
"""

DIRECTORIES = """
def save(step):
    os.makedirs(at(f"run/checkpoint-{step}"), exist_ok=True)
    for name in ("model", "optimizer"):
        write(at(f"run/checkpoint-{step}/{name}"), step)
    prune("run/checkpoint-*")
def find():
    path = newest("run/checkpoint-*")
    steps = [check(f"{path}/{name}") for name in ("model", "optimizer")]
    # Killed before a file was opened, all are whole, and that one is not there: its loader would say so.
    if os.path.isdir(path) and 0 in steps and -1 not in steps:
        subprocess.run(["rm", "-rf", path])
        return find()
    return min(steps)
go(find, save)
"""

SHARDED = """
from multiprocessing import Process
def save(step):
    os.makedirs(at(f"step-{step}"), exist_ok=True)
    ranks = [Process(target=write, args=(at(f"step-{step}/shard-{rank}"), step)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0
    with open(at("latest.tmp"), "w") as file:
        file.write(str(step))
    os.replace(at("latest.tmp"), at("latest.txt"))
    prune("step-*")
def find():
    if not os.path.exists(at("latest.txt")):
        return 0
    step = int(open(at("latest.txt")).read())
    found = {check(at(f"step-{step}/shard-{rank}")) for rank in range(3)}
    if found != {step}:
        note("torn", "step", step, found)
    return step
go(find, save)
"""

ON_SIGTERM = """
state = {"step": 0}
def leave(*_):
    step = state["step"] + 1
    write(at(f"model_{step}.pt"), step)
    note("saved", step, time.monotonic())
    os._exit(random.choice((0, 1, 143)))
signal.signal(signal.SIGTERM, leave)
state["step"] = find = max(check(newest("model_*.pt")), 0)
note("found", find)
prune("model_*.pt")
while True:
    time.sleep(0.05)
"""

IGNORES_SIGTERM = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def save(step):
    write(at(f"model_{step}.pt"), step)
    prune("model_*.pt")
go(lambda: check(newest("model_*.pt")), save)
"""

SDK = """
import tarmac
def save(step):
    with tarmac.checkpoint(step, keep=3) as directory:
        write(directory / "model", step)
        write(directory / "optimizer", step)
def find():
    found = tarmac.latest_checkpoint()
    if found is None:
        return 0
    steps = {check(found / "model"), check(found / "optimizer")}
    if len(steps) > 1:
        note("torn", found, steps)
    return min(steps)
go(find, save)
"""

SDK_POLLS = (
    SDK.replace("go(find, save)\n", "")
    + """
step = find()
note("found", step)
while not tarmac.should_pause():
    step += 1
    save(step)
    note("saved", step, time.monotonic())
    time.sleep(random.uniform(0, 0.1))
sys.exit(random.choice((0, 0, 143)))
"""
)

MAPPED = """
import mmap
def save(step):
    data = list(pieces(step))
    size = sum(map(len, data))
    with open(at(f"model_{step}.bin"), "w+b") as file:
        file.truncate(size)
        space = mmap.mmap(file.fileno(), size)
    place = 0
    for piece in data:
        space[place:place + len(piece)] = piece
        place += len(piece)
        time.sleep(PAUSE_S)
    space.flush()
    space.close()
    prune("model_*.bin")
go(lambda: check_raw(newest("model_*.bin")), save)
"""

APPENDED = """
SIZE = 5000
def record(step):
    return (b"%08d" % step) + b"\\0" * (SIZE - 8)
def find():
    path = at("history")
    if not os.path.exists(path):
        return 0
    data = open(path, "rb").read()
    count = len(data) // SIZE
    for number in range(count):
        if int(data[number * SIZE:number * SIZE + 8]) != number + 1:
            note("torn", "record", number)
    with open(path, "r+b") as file:
        file.truncate(count * SIZE)
    return count
step = find()
history = open(at("history"), "ab", buffering=0)
def save(step):
    history.write(record(step))
go(lambda: step, save)
"""

PING_PONG = """
def save(step):
    write(at("ab"[step % 2] + ".pt"), step)
def find():
    return max(check(at("a.pt")), check(at("b.pt")))
go(find, save)
"""

MOVED_BY_A_SHELL = """
import tempfile
def save(step):
    with tempfile.TemporaryDirectory() as place:
        write(f"{place}/draft", step)
        subprocess.run(["cp", "-p", f"{place}/draft", at("incoming")], check=True)
    subprocess.run(["mv", at("incoming"), at("model.pt")], check=True)
go(lambda: check(at("model.pt")), save)
"""

TORCH = """
import torch
def save(step):
    torch.save({"step": step, "model": torch.full((60000,), float(step))}, at(f"model_{step}.pt"))
    prune("model_*.pt")
def find():
    path = newest("model_*.pt")
    if not os.path.exists(path):
        return 0
    try:
        state = torch.load(path, weights_only=True)
        assert bool((state["model"] == state["step"]).all())
    except Exception as error:
        note("torn", path, repr(error)[:80])
        return -1
    return state["step"]
"""

TORCHRUN = (
    TORCH
    + """
if RANK == 0:
    go(find, save)
time.sleep(1000)
"""
)

WAYS = {
    "renamed": Way(body=RENAMED),
    "linked": Way(body=LINKED),
    "directory swapped": Way(body=SWAPPED),
    "atomic directory": Way(body=ATOMIC),
    "in place": Way(body=IN_PLACE),
    "text in place": Way(body=TEXT_IN_PLACE),
    "as the Trainer": Way(body=ASSEMBLED),
    "as Orbax": Way(body=RENAMED_DIRECTORIES),
    "in place, by step": Way(body=BY_STEP),
    "directories in place": Way(body=DIRECTORIES),
    "sharded": Way(body=SHARDED),
    "on SIGTERM": Way(body=ON_SIGTERM),
    "ignores SIGTERM": Way(body=IGNORES_SIGTERM),
    "SDK": Way(body=SDK),
    "SDK, asks": Way(body=SDK_POLLS),
    "mapped": Way(body=MAPPED, bare=True),
    "appended": Way(body=APPENDED, bare=True),
    "in turns": Way(body=PING_PONG),
    "moved by a shell": Way(body=MOVED_BY_A_SHELL),
    "torch.save": Way(body=TORCH + "go(find, save)\n", heavy=True),
    "torchrun": Way(
        body=TORCHRUN, launcher="-m torch.distributed.run --standalone --nproc-per-node 2", heavy=True
    ),
}

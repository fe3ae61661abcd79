"""Ways in which programs save checkpoints, as scripts for `checkpoint_torture.py`.

Each script finds its newest checkpoint as naively as people do, checks its content, notes `found STEP TIME`
(`torn ...` if the content is not whole), and then saves step after step. Its ledger is outside of all that is
kept: `begin STEP` before a save that writes over the one before, `saved STEP AT` once a save is finished. So
it is known exactly what must be there afterwards. What the frameworks write is in `checkpoint_frameworks.py`;
`checkpoint_prelude.py` is what all scripts begin with.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of saving. `launcher` goes before the script; `heavy` ones import a framework.

    `bare`: neither a name nor the content shows that a file is whole. `needs`: the modules that a real
    framework consists of; none: the standard library alone. `at_the_end`: it saves once it is asked to leave.
    `grows`: records are added to one file.
    """

    body: str
    launcher: str = ""
    heavy: bool = False
    bare: bool = False
    at_the_end: bool = False
    grows: bool = False
    needs: tuple[str, ...] = ()


RENAMED = """
def save(step):
    write(at("model.tmp"), step)
    os.replace(at("model.tmp"), at("model.pt"))
go(lambda: check(at("model.pt")), save)
"""

LINKED = """
def save(step):
    write(at("model.tmp"), step)
    os.link(at("model.tmp"), at(f"model_{step}.pt"))
    os.unlink(at("model.tmp"))
    prune("model_*.pt")
go(lambda: check(newest("model_*.pt")), save)
"""

SWAPPED = """
def save(step):
    os.makedirs(at("next.tmp"), exist_ok=True)
    for name in ("model", "optimizer"):
        write(at(f"next.tmp/{name}"), step)
    os.rename(at("next.tmp"), at(f"checkpoint-{step}"))
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

RAW_IN_PLACE = """
def save(step):
    put(at("model.bin"), b"".join(pieces(step)))
go(lambda: check_raw(at("model.bin")), save, overwrites=True)
"""

TEXT_IN_PLACE = """
LINES = 400
def save(step):
    with open(at("model.txt"), "w") as file:
        for piece in range(40):
            for line in range(piece * LINES // 40, (piece + 1) * LINES // 40):
                file.write(f"step {step} tree {line} leaf {line / 7:.12f} value {line / 11:.12f}\\n")
            file.flush()
            CUT.do("lines")
            time.sleep(0.02)
    time.sleep(0.2)
def find():
    if not os.path.exists(at("model.txt")):
        return 0
    lines = open(at("model.txt")).read().splitlines()
    steps = {int(line.split()[1]) for line in lines if line.count(" ") == 7}
    return same("model.txt", steps if len(lines) == LINES else {0, *steps})
go(find, save, overwrites=True)
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
        remove(path)
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
    save_step(lambda step: write(at(f"model_{step}.pt"), step), state["step"] + 1)
    os._exit(random.choice((0, 1, 143)))
signal.signal(signal.SIGTERM, leave)
state["step"] = start(check(newest("model_*.pt")))
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
step = start(find())
while not tarmac.should_pause():
    step += 1
    save_step(save, step)
    time.sleep(random.uniform(0, SPACING_S))
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
        CUT.do("piece")
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
    if history.write(record(step)) != SIZE:
        raise OSError("a record was cut")
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

WAYS = {
    "renamed": Way(body=RENAMED),
    "linked": Way(body=LINKED),
    "directory swapped": Way(body=SWAPPED),
    "atomic directory": Way(body=ATOMIC),
    "in place": Way(body=IN_PLACE),
    "raw in place": Way(body=RAW_IN_PLACE, bare=True),
    "text in place": Way(body=TEXT_IN_PLACE, bare=True),
    "in place, by step": Way(body=BY_STEP),
    "directories in place": Way(body=DIRECTORIES),
    "sharded": Way(body=SHARDED),
    "on SIGTERM": Way(body=ON_SIGTERM, at_the_end=True),
    "ignores SIGTERM": Way(body=IGNORES_SIGTERM),
    "SDK": Way(body=SDK),
    "SDK, asks": Way(body=SDK_POLLS),
    "mapped": Way(body=MAPPED, bare=True),
    "appended": Way(body=APPENDED, bare=True, grows=True),
    "in turns": Way(body=PING_PONG),
    "moved by a shell": Way(body=MOVED_BY_A_SHELL),
}

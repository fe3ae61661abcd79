"""What every script of `checkpoint_torture.py` begins with: the ledger, saving and checking, and the cut.

The cut makes a case deterministic: in a file beside the ledger the torture writes after how many saves the
script is to stop, and how far into the next one. The script counts the operations of a save (a file opened, a
piece written, a name made, moved or removed), stops at the chosen one, and notes `at WHAT`.
"""

from __future__ import annotations

PRELUDE = '''
import glob, io, os, random, signal, subprocess, sys, time, zipfile

ROOT = os.environ["CHECKPOINT_ARTIFACT_PATH"]
RANK = int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))
LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
PIECES = 8
random.seed(os.environ.get("SEED"))
PAUSE_S = random.choice((0.0, 0.002, 0.01))
SPACING_S = random.choice((0.05, 0.2, 1.5))

def at(name):
    return os.path.join(ROOT, name)

def note(*words):
    os.write(LEDGER, (" ".join(str(word) for word in words) + "\\n").encode())

class Cut:
    """Stops a save at the operation that the torture has chosen."""
    saves, count, op, target, saving = 0, 0, 0, None, False

    def begin(self):
        self.op, self.target, self.saving = 0, None, True
        if not os.path.exists(os.environ["LEDGER"] + ".cut"):
            return
        saves, fraction = open(os.environ["LEDGER"] + ".cut").read().split()
        if self.saves == int(saves):
            self.target = 1 + int(float(fraction) * max(self.count, 1))

    def end(self):
        self.saves, self.count, self.saving = self.saves + 1, max(self.count, self.op), False

    def do(self, what):
        if not self.saving:
            return
        self.op += 1
        if self.op == self.target:
            note("at", what)
            while True:
                time.sleep(60)

CUT = Cut()
NAMES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")

def watch(event, arguments):
    if event in NAMES or event == "open" and isinstance(arguments[2], int) and arguments[2] & 3:
        if any(isinstance(each, str) and each.startswith(ROOT) for each in arguments[:2]):
            CUT.do(event + " " + os.path.basename(str(arguments[0])))

sys.addaudithook(watch)

def put(path, data, pieces=PIECES):
    """A file, written in place and piece by piece."""
    size = -(-len(data) // pieces)
    with open(path, "wb") as file:
        for place in range(0, len(data), size):
            file.write(data[place:place + size])
            file.flush()
            CUT.do("piece of " + os.path.basename(path))
            time.sleep(PAUSE_S)

def pieces(step, size=20000):
    """Raw content: each piece says which step it is of; the last one ends it."""
    for number in range(PIECES):
        end = b"END" if number == PIECES - 1 else b"---"
        yield (b"\\0%d %d " % (step, number)) + os.urandom(size) + end

def archive(step):
    """The bytes that torch.save writes: an archive with its contents at its end."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for number, piece in enumerate(pieces(step)):
            made.writestr(f"{step}/{number}", piece)
    return data.getvalue()

def write(path, step):
    put(path, archive(step))

def check(path):
    """The step of a whole archive; 0 where there is none; -1, and notes so, if it is torn."""
    if not os.path.exists(path):
        return 0
    try:
        with zipfile.ZipFile(path) as found:
            (step,) = {int(name.split("/")[0]) for name in found.namelist()}
            assert found.testzip() is None and len(found.namelist()) == PIECES
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

def same(path, steps):
    """The step that all parts of a checkpoint are of; -1, and notes so, where they differ or lack."""
    steps = set(steps)
    if len(steps) == 1 and steps != {0}:
        return steps.pop()
    note("torn", path, "parts of", sorted(steps))
    return -1

def number_of(path):
    return int("".join(filter(str.isdigit, os.path.basename(path))) or 0)

def newest(pattern):
    """The path with the highest number, as found by its name alone."""
    return max(glob.glob(at(pattern)), key=number_of, default=at("none"))

def remove(path):
    """A directory goes file by file, as with shutil.rmtree."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)

def prune(pattern, keep=3):
    for path in sorted(glob.glob(at(pattern)), key=number_of)[:-keep]:
        remove(path)

def newest_time():
    """When the newest file was written that this start found."""
    paths = glob.glob(at("**"), recursive=True)
    return max((os.lstat(path).st_mtime for path in paths if os.path.isfile(path)), default=0.0)

def start(step):
    """Note what was found; no more is asked of a script that looks at a version for the torture."""
    note("found", step, newest_time())
    print("found", step, flush=True)
    if "LOOK" in os.environ:
        os._exit(0)
    return max(step, 0)

def save_step(save, step, overwrites=False):
    if overwrites:
        note("begin", step)
    CUT.begin()
    save(step)
    CUT.end()
    note("saved", step, time.time())

def go(find, save, overwrites=False):
    step = start(find())
    while True:
        step += 1
        save_step(save, step, overwrites)
        time.sleep(random.uniform(0, SPACING_S))
'''

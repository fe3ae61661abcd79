"""Ways of saving that write what frameworks write, in their order: scripts for `checkpoint_ways.py`.

They need no framework. LightGBM writes text over one file, the Trainer of Hugging Face assembles a directory
whose last file is its mark, Orbax renames a directory into place.
"""

from __future__ import annotations

TEXT_IN_PLACE = """
import time
def save(step):
    with open(at("model.txt"), "w") as file:
        for number in range(40):
            file.write("".join(f"tree {step} leaf {number} {line}\\n" for line in range(30)))
            file.flush()
            time.sleep(0.01)
        file.write(f"end {step}\\n")
def find():
    if not os.path.exists(at("model.txt")):
        return 0
    lines = open(at("model.txt")).read().splitlines()
    steps = {line.split()[1] for line in lines}
    if len(lines) != 1201 or len(steps) != 1 or not lines[-1].startswith("end"):
        note("torn", "model.txt", len(lines), steps)
        return -1
    return int(steps.pop())
go(find, save, overwrites=True)
"""

ASSEMBLED = """
NAMES = ("config.json", "model.safetensors.tmp", "training_args.bin", "optimizer.pt", "trainer_state.json")
def save(step):
    place = at(f"checkpoint-{step}")
    os.makedirs(place, exist_ok=True)
    for name in NAMES:
        write(f"{place}/{name}", step)
        if name.endswith(".tmp"):
            os.replace(f"{place}/{name}", f"{place}/{name[:-4]}")
        time.sleep(0.02)
    prune("checkpoint-*", keep=2)
def find():
    path = newest("checkpoint-*")
    if not os.path.isdir(path):
        return 0
    steps = {check(f"{path}/{name.removesuffix('.tmp')}") for name in NAMES}
    if len(steps) > 1:
        note("torn", path, steps)
    return min(steps)
go(find, save)
"""

RENAMED_DIRECTORIES = """
def save(step):
    draft = at(f"{step}.orbax-checkpoint-tmp")
    os.makedirs(f"{draft}/default", exist_ok=True)
    for name in ("_CHECKPOINT_METADATA", "default/data", "default/manifest.ocdbt", "commit_success.txt"):
        write(f"{draft}/{name}", step)
    os.rename(draft, at(str(step)))
    prune("[0-9]*")
def find():
    paths = [path for path in glob.glob(at("[0-9]*")) if os.path.basename(path).isdigit()]
    if not paths:
        return 0
    path = max(paths, key=number_of)
    steps = {check(f"{path}/{name}") for name in ("default/data", "default/manifest.ocdbt")}
    if len(steps) > 1:
        note("torn", path, steps)
    return min(steps)
go(find, save)
"""

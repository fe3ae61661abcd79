"""Ways in which frameworks save checkpoints, as scripts for `checkpoint_torture.py`.

These are imitations: they write the same files in the same order as the libraries do (names, drafts,
renames, and what comes last), and need the standard library alone. The scripts of `checkpoint_libraries.py`
use the libraries themselves, where those are installed.
"""

from __future__ import annotations

from checkpoint_ways import Way

FORMATS = """
import json, pickle, struct
def tensors(step):
    data = (b"%8d" % step) * 15000
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data
def step_of(path):
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return 0
    if path.endswith(".safetensors"):
        data = open(path, "rb").read()
        return int(data[-8:]) if data == tensors(int(data[-8:])) else 0
    if path.endswith((".json", "_METADATA")):
        try:
            return json.load(open(path)).get("step", -2)
        except ValueError:
            return 0
    return check(path)
def put_shard(directory, name, step):
    draft = os.path.join(directory, ".tmp" + "".join(random.choices("abcdefgXYZ0123", k=6)))
    put(draft, tensors(step), 3)
    os.rename(draft, os.path.join(directory, name))
def put_json(path, step):
    state = {"step": step, "log_history": [{"loss": number / 7} for number in range(60)]}
    put(path, json.dumps(state, indent=2).encode(), 2)
"""

TRAINER = """
NAMES = ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")
def save(step):
    path = at(f"checkpoint-{step}")
    os.makedirs(path, exist_ok=True)
    put_json(path + "/config.json", step)
    put_model(path, step)
    for name in NAMES:
        write(f"{path}/{name}", step)
    put_json(path + "/trainer_state.json", step)
    prune("checkpoint-*", 2)
def find():
    path = newest("checkpoint-*")
    if not os.path.isdir(path):
        return 0
    names = (*MODEL, *NAMES, "config.json", "trainer_state.json")
    return same(path, [number_of(path)] + [step_of(f"{path}/{name}") for name in names])
go(find, save)
"""
ONE_MODEL = """
MODEL = ("model.safetensors",)
def put_model(path, step):
    put_shard(path, MODEL[0], step)
"""
SHARDS = """
MODEL = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
def put_model(path, step):
    for name in MODEL:
        put_shard(path, name, step)
    index = {"metadata": {"total_size": 1}, "weight_map": dict(zip("ab", MODEL))}
    put(path + "/model.safetensors.index.json", (json.dumps(index, indent=2) + chr(10)).encode(), 2)
"""

SAFETENSORS = """
def save(step):
    put_json(at("config.json"), step)
    put_model(ROOT, step)
def find():
    if not os.path.exists(at("model.safetensors.index.json")):
        if glob.glob(at("model-*")):
            note("torn", "shards without an index")
        return 0
    names = set(json.load(open(at("model.safetensors.index.json")))["weight_map"].values())
    return same("shards", [step_of(at(name)) for name in names])
go(find, save, overwrites=True)
"""

ACCELERATE = """
NAMES = ("optimizer.bin", "random_states_0.pkl")
ALL = ("model.safetensors", *NAMES)
def save(step):
    path = at(f"checkpoints/checkpoint_{step}")
    os.makedirs(path, exist_ok=True)
    put_shard(path, "model.safetensors", step)
    for name in NAMES:
        write(f"{path}/{name}", step)
    prune("checkpoints/checkpoint_*", 2)
def find():
    path = newest("checkpoints/checkpoint_*")
    if not os.path.isdir(path):
        return 0
    return same(path, [number_of(path)] + [step_of(f"{path}/{name}") for name in ALL])
go(find, save)
"""

ORBAX = """
RAW = ("manifest.ocdbt", "d/7876c760", "ocdbt.process_0/d/1bbfbb89")
def save(step):
    draft = at(f"{step}.orbax-checkpoint-tmp")
    if os.path.isdir(draft):
        remove(draft)
    inner = draft + "/default.orbax-checkpoint-tmp"
    os.mkdir(draft)
    put_json(draft + "/_CHECKPOINT_METADATA", step)
    for name in ("", "/array_metadatas", "/ocdbt.process_0", "/ocdbt.process_0/d", "/d"):
        os.mkdir(inner + name)
    put(inner + "/ocdbt.process_0/d/1bbfbb89", b"".join(pieces(step)))
    put_json(inner + "/array_metadatas/process_0", step)
    put_json(inner + "/_METADATA", step)
    put_json(draft + "/_CHECKPOINT_METADATA", step)
    put(inner + "/d/7876c760", b"".join(pieces(step)))
    put(inner + "/manifest.ocdbt.__lock", b"".join(pieces(step)))
    os.rename(inner + "/manifest.ocdbt.__lock", inner + "/manifest.ocdbt")
    put(inner + "/commit_success.txt", b"Checkpoint commit was successful", 1)
    os.rename(inner, draft + "/default")
    put_json(draft + "/_CHECKPOINT_METADATA", step)
    put(draft + "/commit_success.txt", b"Checkpoint commit was successful", 1)
    os.rename(draft, at(str(step)))
    prune("[0-9]*[0-9]", 3)
def find():
    steps = [int(name) for name in os.listdir(ROOT) if name.isdigit()]
    for name in os.listdir(ROOT):
        if "orbax-checkpoint-tmp" in name:
            remove(at(name))
    if not steps:
        return 0
    path = at(str(max(steps)))
    raw = [check_raw(f"{path}/default/{name}") for name in RAW]
    return same(path, [max(steps), *raw, step_of(f"{path}/default/_METADATA")])
go(find, save)
"""

DCP = """
RANKS = 2
def parts(path):
    return [f"{path}/__{rank}_0.distcp" for rank in range(RANKS)]
def save(step):
    path = at(PLACE.format(step=step))
    os.makedirs(path, exist_ok=True)
    for part in parts(path):
        put(part, b"".join(pieces(step)))
    put(path + "/.metadata.tmp", pickle.dumps({"step": step, "parts": parts("")}), 2)
    if os.path.exists(path + "/.metadata"):
        os.unlink(path + "/.metadata")
    os.rename(path + "/.metadata.tmp", path + "/.metadata")
    if "{step}" in PLACE:
        prune(PLACE.format(step="*"), 2)
def find():
    path = newest(PLACE.format(step="*"))
    if not os.path.isdir(path) or "{step}" not in PLACE and not os.listdir(path):
        return 0
    if not os.path.exists(path + "/.metadata"):
        note("torn", path, "without .metadata")
        return -1
    return same(path, [pickle.load(open(path + "/.metadata", "rb"))["step"], *map(check_raw, parts(path))])
go(find, save, overwrites="{step}" not in PLACE)
"""

DEEPSPEED = """
NAMES = ["mp_rank_00_model_states.pt"]
NAMES += [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)]
def save(step):
    path = at(f"global_step{step}")
    os.makedirs(path, exist_ok=True)
    for name in NAMES:
        write(f"{path}/{name}", step)
    put(at("zero_to_fp32.py"), b"import torch\\n" * 2000, 1)
    put(at("latest"), f"global_step{step}".encode(), 1)
def find():
    if not os.path.exists(at("latest")):
        if glob.glob(at("global_step*")):
            note("torn", "global_step without latest")
        return 0
    name = open(at("latest")).read()
    if not name or not os.path.isdir(at(name)):
        note("torn", "latest names", repr(name))
        return -1
    return same(name, [number_of(name)] + [step_of(at(f"{name}/{each}")) for each in NAMES])
go(find, save)
"""

ONE_FILE = """
def save(step):
    data = archive(step)
    put(at("last.pt"), data, 200)
PAUSE_S = PAUSE_S / 10
go(lambda: check(at("last.pt")), save, overwrites=True)
"""

LIGHTNING = """
import shutil, tempfile
ELSEWHERE = tempfile.mkdtemp(dir=os.environ["OTHER_DISK"])
def move(step, name):
    with tempfile.NamedTemporaryFile(dir=ELSEWHERE, delete=False) as draft:
        draft.write(archive(step))
    shutil.move(draft.name, at(name))
def save(step):
    move(step, f"epoch=0-step={step}.ckpt")
    for path in sorted(glob.glob(at("epoch*.ckpt")), key=number_of)[:-2]:
        os.unlink(path)
    move(step, "last.ckpt")
go(lambda: check(at("last.ckpt")), save, overwrites=True)
"""

IMITATIONS = {
    "Trainer": Way(body=FORMATS + ONE_MODEL + TRAINER),
    "Trainer, shards": Way(body=FORMATS + SHARDS + TRAINER),
    "safetensors shards": Way(body=FORMATS + SHARDS + SAFETENSORS),
    "accelerate": Way(body=FORMATS + ACCELERATE),
    "Orbax": Way(body=FORMATS + ORBAX),
    "DCP": Way(body=FORMATS + 'PLACE = "step-{step}"' + DCP),
    "DCP, one directory": Way(body=FORMATS + 'PLACE = "same"' + DCP),
    "DeepSpeed ZeRO": Way(body=FORMATS + DEEPSPEED),
    "torch.save, one file": Way(body=ONE_FILE),
    "Lightning": Way(body=LIGHTNING),
}

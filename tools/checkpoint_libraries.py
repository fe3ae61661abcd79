"""The frameworks themselves as ways of saving, for `checkpoint_torture.py`: played where they are installed.

Each script resumes as its framework does, compares what it was given, and saves step after step.
"""

from __future__ import annotations

from checkpoint_ways import Way

TRAINER = """
import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

class Config(PretrainedConfig):
    model_type = "tiny"

class Model(PreTrainedModel):
    config_class = Config
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(200, 200)
        self.register_buffer("step", torch.zeros(1))
        self.post_init()
    def forward(self, x=None, labels=None):
        y = self.layer(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}

class Notes(TrainerCallback):
    def on_step_end(self, arguments, state, control, **_):
        time.sleep(random.uniform(0, SPACING_S))
        model.step.fill_(state.global_step)
        CUT.begin()
    def on_save(self, arguments, state, control, **_):
        CUT.end()
        note("saved", state.global_step, time.time())

def step_in(path):
    import safetensors.torch
    try:
        state = json.load(open(path + "/trainer_state.json"))
        weights = safetensors.torch.load_file(path + "/model.safetensors")
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            torch.load(f"{path}/{name}", weights_only=False)
    except Exception as error:
        note("torn", path, repr(error)[:80])
        return -1
    return same(path, [number_of(path), state["global_step"], int(weights["step"])])

import json
last = get_last_checkpoint(ROOT)
step = start(step_in(last) if last else 0)
model = Model(Config())
data = [{"x": torch.randn(200), "labels": torch.randn(200)} for _ in range(64)]
arguments = TrainingArguments(
    output_dir=ROOT, save_steps=1, save_total_limit=2, max_steps=10_000_000, per_device_train_batch_size=4,
    report_to=[], disable_tqdm=True, use_cpu=True, logging_steps=1000,
)
trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Notes()])
trainer.train(resume_from_checkpoint=last)
"""

SAFETENSORS = """
import torch
from transformers import PretrainedConfig, PreTrainedModel

class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.parts = torch.nn.ModuleList([torch.nn.Linear(100, 100) for _ in range(4)])
        self.post_init()

def find():
    if not os.path.exists(at("model.safetensors.index.json")):
        return 0
    try:
        parts = Model.from_pretrained(ROOT).parts
    except Exception as error:
        note("torn", ROOT, repr(error)[:80])
        return -1
    return same(ROOT, [int(value) for part in parts for value in (part.weight[0, 0], part.weight[-1, -1])])

model = Model(PretrainedConfig())
def save(step):
    with torch.no_grad():
        for part in model.parts:
            part.weight.fill_(float(step))
    model.save_pretrained(ROOT, max_shard_size="50KB")
go(find, save, overwrites=True)
"""

ORBAX = """
import jax.numpy as jnp
import orbax.checkpoint as ocp
options = ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=ASYNC)
if "LOOK" in os.environ and not os.listdir(ROOT):
    start(0)
with ocp.CheckpointManager(ROOT, options=options) as manager:
    def find():
        step = manager.latest_step()
        if step is None:
            return 0
        try:
            state = manager.restore(step, args=ocp.args.StandardRestore())
        except Exception as error:
            note("torn", step, repr(error)[:80])
            return -1
        return same(step, [step, int(state["step"]), int(state["w"].min()), int(state["w"].max())])
    def save(step):
        state = {"w": jnp.full((1000, 50), step, jnp.float32), "step": jnp.int32(step)}
        manager.save(step, args=ocp.args.StandardSave(state), force=True)
        manager.wait_until_finished()
    go(find, save)
"""

DCP = """
import torch
import torch.distributed.checkpoint as dcp
import warnings
warnings.simplefilter("ignore")
def state_of(step):
    return {"w": torch.full((60000,), float(step)), "step": torch.tensor(step)}
def save(step):
    dcp.save(state_of(step), checkpoint_id=at(f"step-{step}"))
    prune("step-*", 2)
def find():
    path = newest("step-*")
    if not os.path.isdir(path):
        return 0
    state = state_of(0)
    try:
        dcp.load(state, checkpoint_id=path)
    except Exception as error:
        note("torn", path, repr(error)[:80])
        return -1
    return same(path, [number_of(path), int(state["step"]), int(state["w"].min()), int(state["w"].max())])
go(find, save)
"""

DEEPSPEED = """
for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}.items():
    os.environ[name] = value
import socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ["MASTER_PORT"] = str(free.getsockname()[1])
import torch, deepspeed
model = torch.nn.Linear(200, 200)
settings = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 1},
    "bf16": {"enabled": True},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
def find():
    if not os.listdir(ROOT):
        return 0
    try:
        path, kept = engine.load_checkpoint(ROOT)
    except BaseException as error:
        note("torn", "latest", repr(error)[:80])
        return -1
    if path is None:
        note("torn", "no latest")
        return -1
    return same(path, [kept["step"], number_of(os.path.dirname(path))])
def save(step):
    engine.save_checkpoint(ROOT, tag=f"global_step{step}", client_state={"step": step})
go(find, save)
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

REAL = {
    "torch.save": Way(body=TORCH + "go(find, save)\n", heavy=True, needs=("torch", "numpy")),
    "torchrun": Way(
        body=TORCHRUN,
        launcher="-m torch.distributed.run --standalone --nproc-per-node 2",
        heavy=True,
        needs=("torch", "numpy"),
    ),
    "Trainer, library": Way(
        body=TRAINER, heavy=True, needs=("torch", "transformers", "accelerate", "safetensors")
    ),
    "safetensors shards, library": Way(
        body=SAFETENSORS, heavy=True, needs=("torch", "transformers", "safetensors")
    ),
    "Orbax, library": Way(body="ASYNC = False" + ORBAX, heavy=True, needs=("jax", "orbax")),
    "Orbax async, library": Way(body="ASYNC = True" + ORBAX, heavy=True, needs=("jax", "orbax")),
    "DCP, library": Way(body=DCP, heavy=True, needs=("torch", "numpy")),
    "DeepSpeed ZeRO, library": Way(body=DEEPSPEED, heavy=True, needs=("torch", "deepspeed")),
}

"""Scripts and configurations for Determined's training library, as its users write them for each of its eras.

For the tests that run them with the package itself. The model of all is one number that grows by `rate`.
"""

from __future__ import annotations

OPERATIONS = """\
import json, logging, sys, threading
import determined as det

logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)


def main(core, info):
    x, step = 0.0, 0
    if info.latest_checkpoint is not None:
        with core.checkpoint.restore_path(info.latest_checkpoint) as path:
            x, step = json.loads((path / "state.json").read_text())
        print("goes on at step", step, flush=True)
    last = step
    for operation in core.searcher.operations():
        while step < operation.length:
            step, x = step + 1, x + sum(core.distributed.allgather(info.trial.hparams["rate"]))
            threading.Event().wait(PAUSE_S)
            if step % 5 == 0:
                if core.distributed.rank == 0:
                    core.train.report_training_metrics(steps_completed=step, metrics={"x": x})
                    operation.report_progress(step)
                    with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
                        (path / "state.json").write_text(json.dumps([x, step]))
                    last = step
                if core.preempt.should_preempt():
                    print("leaves at step", step, flush=True)
                    return
        if core.distributed.rank == 0:
            core.train.report_validation_metrics(steps_completed=step, metrics={"x": x})
            operation.report_completed(x)
    if core.distributed.rank == 0 and last != step:
        with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
            (path / "state.json").write_text(json.dumps([x, step]))


info = det.get_cluster_info()
world = det.core.DistributedContext.from_torch_distributed() if "torch" in sys.argv else None
with det.core.init(distributed=world) as core:
    rank, size = core.distributed.rank, core.distributed.size
    print("rank", rank, "of", size, "trial", info.trial.trial_id, flush=True)
    main(core, info)
"""
"""The Core API before 0.38: the search says how far to train, the script says when it has."""

METRICS = """\
import json, logging, sys, threading
import determined as det

logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)


def main(core, info, length):
    x, step = 0.0, 0
    if info.latest_checkpoint is not None:
        with core.checkpoint.restore_path(info.latest_checkpoint) as path:
            x, step = json.loads((path / "state.json").read_text())
        print("goes on at step", step, flush=True)
    while step < length:
        step, x = step + 1, x + sum(core.distributed.allgather(info.trial.hparams["rate"]))
        threading.Event().wait(PAUSE_S)
        if step % 5 == 0:
            if core.distributed.rank == 0:
                core.train.report_training_metrics(steps_completed=step, metrics={"x": x})
                core.train.report_progress(step / length)
                core.train.report_validation_metrics(steps_completed=step, metrics={"x": x, "batches": step})
                with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
                    (path / "state.json").write_text(json.dumps([x, step]))
            if core.preempt.should_preempt():
                print("leaves at step", step, flush=True)
                return


info = det.get_cluster_info()
world = det.core.DistributedContext.from_torch_distributed() if "torch" in sys.argv else None
with det.core.init(distributed=world) as core:
    rank, size = core.distributed.rank, core.distributed.size
    print("rank", rank, "of", size, "trial", info.trial.trial_id, flush=True)
    main(core, info, 40)
"""
"""The Core API of 0.38: the search watches the validation metrics."""

TRIAL = """\
import threading
import torch
from determined import pytorch


class Line(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("rate"))
        )

    def train_batch(self, batch, epoch_idx, batch_idx):
        threading.Event().wait(PAUSE_S)
        x, y = batch
        loss = ((self.model(x) - y) ** 2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch, batch_idx):
        x, y = batch
        step = self.context.current_train_batch()
        return {"x": ((self.model(x) - y) ** 2).mean().item(), "batches": step}

    def build_training_data_loader(self):
        return self._loader()

    def build_validation_data_loader(self):
        return self._loader()

    def _loader(self):
        x = torch.ones(64, 1)
        data = torch.utils.data.TensorDataset(x, 2 * x)
        size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(data, batch_size=size, LOADING)
"""
"""A trial class: one weight is to become 2."""


def script(text: str, *, pause_s: float = 0.01, loading: str = "prefetch_factor=None") -> str:
    """A script that rests so long in each step."""
    return text.replace("PAUSE_S", str(pause_s)).replace("LOADING", loading)


BY_WORKERS = "num_workers=1"
"""How data is loaded with 0.23: its DataLoader always gives a factor, for which PyTorch 2 wants workers."""


def config(entrypoint: str, *, slots: int = 1, **fields: str) -> str:
    """A configuration; each of the fields is its text in YAML. Of 0.34 with `max_length` in its searcher."""
    usual = {
        "hyperparameters": "{rate: 0.25, global_batch_size: 8}",
        "searcher": "{name: single, metric: x, max_length: {batches: 40}}",
        "scheduling_unit": "5",
        "min_validation_period": "{batches: 5}",
        "max_restarts": "0",
    }
    lines = [f"{name}: {text}" for name, text in (usual | fields).items()]
    head = ["name: digits", f"entrypoint: {entrypoint}", f"resources: {{slots_per_trial: {slots}}}"]
    return "\n".join([*head, *lines, ""])

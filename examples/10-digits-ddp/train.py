"""Distributed training on handwritten digits that may be paused at any step, and goes on as if nothing was.

Started once per node by run.yaml. Prints a line per epoch and, at the end, the accuracy on digits that it was
not trained on. What a training of your own needs to be paused well is in the lines that say `tarmac.`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from model import Network, load_split
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tarmac

EPOCHS = int(os.environ.get("EPOCHS", "40"))
BATCH = 16
SEED = 1797


@dataclass(slots=True)
class Position:
    """How far training got: whole epochs, batches of the next one, steps in all."""

    epoch: int = 0
    batch: int = 0
    step: int = 0


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=int(os.environ["NODE_RANK"]), world_size=int(os.environ["NNODES"]))
    training = Training()
    if directory := tarmac.latest_checkpoint():
        training.load(directory)
        training.say("resumed at")
    if training.run():
        training.say("finished at")
        tarmac.finished()
    dist.barrier()  # nobody hangs up while another still speaks
    dist.destroy_process_group()
    # Threads of gloo may still be winding up, and the interpreter's own end would now and then abort the
    # process over them ("terminate called without an active exception"): all is saved, so leave without it.
    sys.stdout.flush()
    os._exit(0)


class Training:
    """Everything a checkpoint must hold, and the loop over it."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.train, self.test = load_split(seed=SEED)
        self.batches = len(self.train) // (BATCH * self.world)
        self.model = DistributedDataParallel(Network())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4)
        self.position = Position()
        torch.manual_seed(SEED + self.rank)  # from here on every worker draws its own dropout

    def run(self) -> bool:
        """Train to the end; False when a pause came in between."""
        here = self.position
        while here.epoch < EPOCHS:
            for chosen in self.batches_left():
                loss = self.step(chosen)
                if self.rank == 0:
                    tarmac.report(step=here.step, loss=loss, progress=here.step / (EPOCHS * self.batches))
                if self.pause_agreed():
                    self.save()
                    self.say("paused at")
                    return False
            here.epoch, here.batch = here.epoch + 1, 0
            self.say(f"epoch {here.epoch:2}")
        return True

    def batches_left(self) -> Iterator[Tensor]:
        """This worker's part of each batch that the epoch still has to come; the order is the epoch's own."""
        shuffled = torch.Generator().manual_seed(SEED + self.position.epoch)
        order = torch.randperm(len(self.train), generator=shuffled)
        while self.position.batch < self.batches:
            first = (self.position.batch * self.world + self.rank) * BATCH
            yield order[first : first + BATCH]

    def step(self, chosen: Tensor) -> float:
        """One step of the optimizer; DDP averages the gradients of all workers."""
        self.model.train()
        scores = self.model(self.train.images[chosen])
        loss = nn.functional.cross_entropy(scores, self.train.labels[chosen])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.position.batch += 1
        self.position.step += 1
        return loss.item()

    def pause_agreed(self) -> bool:
        """Whether any worker has been asked to pause: all of them leave after the same step, or none."""
        asked = torch.tensor(int(tarmac.should_pause()))
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        return bool(asked)

    def save(self) -> None:
        """Write a checkpoint; the first worker does, with the random states of all."""
        own = torch.get_rng_state()
        states = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(states, own)
        if self.rank == 0:
            with tarmac.checkpoint(step=self.position.step) as directory:
                torch.save(
                    {
                        "model": self.model.module.state_dict(),
                        "optimizer": self.optimizer.state_dict(),
                        "position": asdict(self.position),
                        "random": states,
                    },
                    directory / "state.pt",
                )

    def load(self, directory: Path) -> None:
        """Take everything back from a checkpoint."""
        state = torch.load(directory / "state.pt", weights_only=True)
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.position = Position(**state["position"])
        torch.set_rng_state(state["random"][self.rank])

    def say(self, what: str) -> None:
        """One line on where training stands, measured on the digits held back."""
        if self.rank == 0:
            loss, accuracy = self.evaluate()
            print(f"{what} step {self.position.step:5} loss {loss:.5f} accuracy {accuracy:.2%}", flush=True)

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Loss and accuracy on the digits held back."""
        self.model.eval()
        scores = self.model.module(self.test.images)
        loss = nn.functional.cross_entropy(scores, self.test.labels)
        accuracy = (scores.argmax(dim=1) == self.test.labels).float().mean()
        return loss.item(), accuracy.item()


if __name__ == "__main__":
    main()

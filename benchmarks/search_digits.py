"""A search of 64 trials of the digits training, its server killed ten times; beside random search.

Run with `python -m benchmarks.search_digits [--trials N] [--kills N]`: real servers, runners and processes on
a local cluster of 4 nodes of 2 slots, in a home of its own that is removed. Trials train a small network in
NumPy; an epoch takes `EPOCH_S` at least, as on an accelerator, so that slot time means something on few
processors. Ends with 1 where the trials of the search that was killed are others, or one had two runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tarmac import api
from tarmac.cli.views.experimentview import best_line, trials_table
from tarmac.cli.views.terminal import Terminal
from tarmac.client import Client
from tarmac.model.errors import Unavailable

LONGEST = 27
EPOCH_S = 0.25
LOOK_S = 0.25
SETTINGS = "[[local]]\nnodes = 4\nslots = 2\n"

TRAIN = """\
import json, os, sys, time
import numpy as np
import tarmac

given = tarmac.parameters()
data = np.load(os.environ["DIGITS"])
x, y, unseen, answers = data["x"], data["y"], data["unseen"], data["answers"]
random = np.random.default_rng(given["seed"])
width = given["width"]
weights = [random.normal(0, 0.2, (64, width)), random.normal(0, 0.2, (width, 10))]
found, first = tarmac.latest_checkpoint(), 0
if found is not None:
    kept = np.load(found / "weights.npz")
    weights, first = [kept["one"], kept["two"]], int(kept["epoch"])
wanted = np.eye(10)[y]


def forward(x):
    hidden = np.maximum(x @ weights[0], 0)
    scores = np.exp(np.clip(hidden @ weights[1], -50, 50))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


for epoch in range(first + 1, given["epochs"] + 1):
    began = time.monotonic()
    for batch in np.array_split(random.permutation(len(x)), 45):
        hidden, guess = forward(x[batch])
        error = (guess - wanted[batch]) / len(batch)
        inner = (error @ weights[1].T) * (hidden > 0)
        weights[1] -= given["lr"] * (hidden.T @ error + given["decay"] * weights[1])
        weights[0] -= given["lr"] * (x[batch].T @ inner + given["decay"] * weights[0])
    _, guess = forward(unseen)
    loss = float(-np.log(guess[np.arange(len(answers)), answers] + 1e-12).mean())
    time.sleep(max(0.0, began + float(os.environ["EPOCH_S"]) - time.monotonic()))
    with tarmac.checkpoint(epoch, keep=1) as directory:
        np.savez(directory / "weights.npz", one=weights[0], two=weights[1], epoch=epoch)
    tarmac.report(step=epoch, loss=loss, accuracy=float((guess.argmax(axis=1) == answers).mean()))
    if tarmac.should_pause():
        sys.exit(0)
"""

RUN = """\
name: digits-{method}
slots: 1
code: .
command: [{python}, -S, -c, "import site; site.main(); exec(open('train.py').read())"]
env: {{DIGITS: {data}, EPOCH_S: "{epoch_s}", OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1"}}
parameters:
  lr: {{log: [1e-3, 2.0]}}
  width: {{choice: [8, 16, 32, 64]}}
  decay: {{log: [1e-6, 1e-1]}}
  epochs: {longest}
  seed: 0
search: {{method: {method}, metric: loss, max_trials: {trials}, max_concurrent_trials: 8{rungs}, seed: 1797}}
"""


@dataclass(frozen=True, slots=True)
class Searched:
    """What came of a search."""

    record: api.Experiment
    trials: list[api.Trial]
    best: api.Trial
    kills: int

    @property
    def slot_s(self) -> float:
        return sum(trial.slot_s for trial in self.trials)


def search(directory: Path, method: str, *, trials: int, kills: int) -> Searched:
    """One search in a home of its own; its server is killed `kills` times on the way."""
    home, project = directory / f"{method}-{kills}", directory / "project"
    home.mkdir()
    (home / "settings.toml").write_text(SETTINGS)
    rungs = f", max_time: {LONGEST}, divisor: 3" if method == "asha" else ""
    text = RUN.format(
        method=method,
        python=sys.executable,
        data=directory / "digits.npz",
        epoch_s=EPOCH_S,
        longest=LONGEST,
        trials=trials,
        rungs=rungs,
    )
    with Client(home=home) as client:
        try:
            record = client.create_experiment(text, directory=str(project), filename="run.yaml")
            done = _follow(client, record.id, trials=trials, kills=kills)
            return Searched(
                client.experiment(record.id),
                client.trials(record.id),
                client.best_trials(record.id)[0],
                done,
            )
        finally:
            client.stop_server()


def _follow(client: Client, experiment: str, *, trials: int, kills: int) -> int:
    """Watch it to its end, and kill the server each time that so many more trials have ended."""
    done = 0
    while True:
        try:
            record = client.experiment(experiment)
            ended = sum(trial.end is not None for trial in client.trials(experiment))
            if record.state == "ended":
                return done
            if done < kills and ended >= (done + 1) * trials // (kills + 1):
                os.kill(client.version().pid, signal.SIGKILL)
                done += 1
        except Unavailable:
            pass  # it was just killed: the next question starts another
        time.sleep(LOOK_S)


def prepare(directory: Path) -> None:
    """The training code, and the digits as one file."""
    import numpy as np  # noqa: PLC0415 - the demo's
    from sklearn.datasets import load_digits  # noqa: PLC0415

    (directory / "project").mkdir()
    (directory / "project" / "train.py").write_text(TRAIN)
    data, answers = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(data))
    data, answers = data[order] / 16.0, answers[order]
    np.savez(
        directory / "digits.npz", x=data[:1437], y=answers[:1437], unseen=data[1437:], answers=answers[1437:]
    )


def report(killed: Searched, calm: Searched, chance: Searched) -> int:
    """Print all of it; the exit code."""
    print(trials_table(killed.record, killed.trials, Terminal()))
    print(best_line(killed.record, killed.best), "\n")
    print(f"{'search':<28}{'trials':>8}{'kills':>7}{'slot s':>9}{'best loss':>11}{'longest':>9}")
    for name, each in (("asha, server killed", killed), ("asha", calm), ("random", chance)):
        longest = sum((trial.at or 0) >= LONGEST for trial in each.trials)
        print(
            f"{name:<28}{len(each.trials):>8}{each.kills:>7}{each.slot_s:>9.0f}{each.best.best:>11.4f}{longest:>9}"
        )
    spent = 0.0
    within: list[api.Trial] = []
    for trial in chance.trials:
        spent += trial.slot_s
        if spent > killed.slot_s and within:
            break
        within.append(trial)
    best = min(trial.best for trial in within if trial.best is not None)
    print(f"{'random, as long as asha':<28}{len(within):>8}{0:>7}{killed.slot_s:>9.0f}{best:>11.4f}")
    same = [trial.parameters for trial in killed.trials] == [trial.parameters for trial in calm.trials]
    runs = {trial.run for trial in killed.trials}
    ok = same and len(runs) == len(killed.trials)
    print(f"\nthe same {len(killed.trials)} trials as without kills: {same}; runs: {len(runs)}")
    return 0 if ok else 1


def main() -> int:
    """Search three times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_digits", description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="digits-"))
    try:
        prepare(directory)
        killed = search(directory, "asha", trials=options.trials, kills=options.kills)
        calm = search(directory, "asha", trials=options.trials, kills=0)
        chance = search(directory, "random", trials=options.trials, kills=0)
        return report(killed, calm, chance)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())

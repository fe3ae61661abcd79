"""Counts, keeps its place in checkpoints, and leaves when it is asked to. No training, only the motions."""

import sys
import time

import tarmac

LAST_STEP = 60
STEP_S = 0.5
STEPS_PER_CHECKPOINT = 10


def main() -> None:
    step = load()
    print(f"starting after step {step}")
    while step < LAST_STEP:
        step += 1
        time.sleep(STEP_S)
        tarmac.report(step=step, progress=step / LAST_STEP, squared=step * step)
        print(f"step {step}")
        if tarmac.should_pause():
            save(step)
            print(f"asked to leave: step {step} is saved")
            sys.exit(0)
        if step % STEPS_PER_CHECKPOINT == 0:
            save(step)
    tarmac.finished()
    print("done")


def load() -> int:
    """The step of the last checkpoint; 0 when there is none."""
    latest = tarmac.latest_checkpoint()
    return int((latest / "step").read_text()) if latest else 0


def save(step: int) -> None:
    """Write a checkpoint: it counts once the block ends, whole or not at all."""
    with tarmac.checkpoint(step=step) as directory:
        (directory / "step").write_text(str(step))


if __name__ == "__main__":
    main()

"""Prints what a trial finds: its variables and the files in /run/determined/info."""

import os
from pathlib import Path

FAMILY = ("DET_", "C10D_", "DTRAIN_", "INTER_TRAIN_", "MINE", "BY_THE_HOOK")
INFO = Path(os.environ["DET_RUN_DIR"]) / "info"

for name in sorted(os.environ):
    if name.startswith(FAMILY):
        print(f"{name}={os.environ[name]}")
for name in ("cluster", "trial", "resources", "rendezvous"):
    print(f"{name}.json", (INFO / f"{name}.json").read_text(encoding="utf-8"))
print("shared:", any(Path("shared").iterdir()))

"""The example of the documents on cycling: 48 slots on a cluster of 12 nodes with 6 each (I11, I16).

Its command lines are the documented ones; in the place of torchrun stands a script that prints its arguments.
"""

from __future__ import annotations

import re
import shlex

from shell import Shell

RUN_FILE = r"""name: foo_experiment
mode: cycle
slots: 48
code: isc-demos
command: |
  source .fashion/bin/activate &&
  cd fashion_mnist/ &&
  torchrun --nnodes=$NNODES --nproc-per-node=$N_PROC \
    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT --node_rank=$NODE_RANK \
    train.py --lr 0.001 --batch-size 16 --save-dir $OUTPUT_PATH --tboard-path $OUTPUT_PATH/tb
"""

ACTIVATE = "export PATH=$PWD/.fashion/bin:$PATH\n"

TORCHRUN = """#!/bin/bash
printf '%q ' "$@"; echo
"""


def test_48_slots_are_8_nodes_of_6(shell: Shell) -> None:
    shell.write("run.yaml", RUN_FILE)
    shell.write("isc-demos/.fashion/bin/activate", ACTIVATE)
    shell.write("isc-demos/.fashion/bin/torchrun", TORCHRUN)
    shell.write("isc-demos/fashion_mnist/train.py", "")
    (shell.directory / "isc-demos/.fashion/bin/torchrun").chmod(0o755)

    printed = shell.tarmac("run", "--rehearse", "12x6", "run.yaml", code=0).stdout
    commands = [shlex.split(line.partition("|")[2]) for line in printed.splitlines()]
    options = [dict(re.findall(r"--(\w[\w-]*)=(\S+)", " ".join(command))) for command in commands]

    assert len(commands) == 8, "one torchrun on each node"
    assert {option["nnodes"] for option in options} == {"8"}
    assert {option["nproc-per-node"] for option in options} == {"6"}
    assert sorted(int(option["node_rank"]) for option in options) == list(range(8))
    assert len({(option["master_addr"], option["master_port"]) for option in options}) == 1
    rest = ["train.py", "--lr", "0.001", "--batch-size", "16", "--save-dir"]
    assert all(command[5:11] == rest for command in commands)

    shown = shell.json("show", "foo_experiment")
    (attempt,) = shown["attempts"]
    assert len(set(attempt["nodes"])) == 8
    assert shown["run"]["outcome"] == "completed"
    assert shown["run"]["mode"] == "cycle"

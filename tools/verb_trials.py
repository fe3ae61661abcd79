"""What `try_verbs.py` types, in the order of a day's work, the files for it, and what differs by engine.

A line of verb_trials.txt is `COMMAND => WORDS`: the command has to succeed and to print the words; with
`=> !WORDS` it has to fail, saying them. C is the cluster, P its pool, T the type of its slots.
"""

from __future__ import annotations

from pathlib import Path

TEXT = Path(__file__).with_suffix(".txt")

FILES = {
    "hello.yaml": 'name: hello\ncode: .\ncommand: echo "hello from $TARMAC_RUN_NAME $A $B"\n',
    "work.yaml": "name: work\ncode: .\nslots: 1\ncommand: python3 work.py\n",
    "work.py": """import time
import tarmac

start = tarmac.latest_checkpoint()
first = int((start / "step").read_text()) + 1 if start else 0
print("begins at step", first, flush=True)
(open("plot.txt", "w")).write("a plot")
for step in range(first, first + 60000):
    time.sleep(0.1)
    tarmac.report(step=step, loss=1 / (step + 1), progress=step / 60000)
    if tarmac.should_pause():
        with tarmac.checkpoint(step=step) as directory:
            (directory / "step").write_text(str(step))
        break
""",
    "vars.env": "A=from-a-file\n",
    "const.yaml": "name: det\nentrypoint: echo determined\nsearcher: {name: single, metric: loss}\n"
    "resources: {slots_per_trial: 1}\n",
    "launch.py": "import clusterfudge as c\n"
    "job = c.Job(short_name='one', replicas=1, processes=[c.Process(command=['echo', 'fudge'])])\n"
    "print(c.Client().create_launch(c.CreateLaunchRequest(name='fudge', jobs=[job])).launch_id)\n",
    "MLproject": "name: ml\nentry_points:\n  main:\n    parameters: {alpha: {type: float, default: 0.5}}\n"
    '    command: "echo alpha {alpha}"\n',
    "backend.yaml": "UnicoreApiUrl: https://example.org/S/rest/core\nResources: {Queue: batch, Nodes: 1}\n",
    "trace.csv": "submitted,duration,slots,user\n2026-01-01 00:00:00,60,1,ada\n2026-01-01 00:00:10,60,2,bo\n",
    "shape.yaml": "name: shape\nnodes: [{count: 2, slots: 2}]\n",
    "word.txt": "hush\n",
    "password.txt": "correct horse battery\n",
    "slow.yaml": "name: slow\nentrypoint: sleep 600\nsearcher: {name: single, metric: loss}\n"
    "resources: {slots_per_trial: 1}\n",
    "node": "tarmac show $1 --json | "
    'python3 -c \'import json, sys; print(*json.load(sys.stdin)["attempts"][-1]["nodes"])\'\n',
}


def lines() -> tuple[list[str], list[str]]:
    """The lines for each engine, and those that are typed once."""
    each, anywhere = (
        part.strip().splitlines()[1:] for part in TEXT.read_text(encoding="utf-8").split("\n\n")
    )
    return each, anywhere


VARYING = {
    ("CYCLE", None): "hello",
    ("EXCLUDED", "slurm"): "!has no node 'nobody'",
    ("EXCLUDED", None): "hello from hello",
    ("SLURM", "slurm"): "#SBATCH --hold",
    ("SLURM", None): "nothing is started",
    ("QUEUE", None): "other",
    ("NODES", "slurm"): "!sinfo",
    ("NODES", None): "up",
    ("DRAINED", "slurm"): "!no node",
    ("DRAINED", None): "takes no new work",
    ("DISK", "slurm"): "!sinfo",
    ("DISK", None): "new disk (",
    ("UNDRAINED", "slurm"): "!no node",
    ("UNDRAINED", None): "takes work again",
    ("SECRET", "slurm"): "!sinfo",
    ("SECRET", None): "!nobody",
    ("SHARD", "slurm"): "!no node is in cluster",
    ("SHARD", None): "!nobody",
    ("NOBODY", None): "there is no such run",
    ("ANY", None): "",
    ("CHECK", "local"): "ANY",
    ("CHECK", None): "ok",
}
"""What a line says that differs by engine."""

"""Launch scripts as Clusterfudge users write them, started by the real command line.

For the end-to-end tests: what they share.
"""

from __future__ import annotations

import re

from shell import Result, Shell

LAB = """\
name: primary
nodes:
  - {count: 2, slots: 8, slot_type: h100, shard: rl, prefix: h}
  - {hostnames: [my-pet-node], slots: 2, slot_type: rtx3090, shard: vision}
"""

AWAIT_END = """
import time
while client.get_launch_details(launch.id).launch.status in (1, 2, 7):
    time.sleep(0.05)
"""


def in_lab(shell: Shell) -> Shell:
    """The shell, its server standing for the cluster, in the top directory of a project."""
    shell.write("lab.yaml", LAB)
    shell.write("requirements.txt", "")
    shell.tarmac("clusters", "add", "lab.yaml", code=0)
    return shell


def script(*jobs: str, rest: str = "", after: str = "", imports: str = "import clusterfudge") -> str:
    """A launch script in the shape that the documentation has."""
    return f"""\
{imports}

client = clusterfudge.Client()
launch = client.create_launch(
    clusterfudge.CreateLaunchRequest(
        {rest}
        jobs=[{", ".join(jobs)}],
    )
)
print(f"launched {{launch.launch_id}} {{launch.id}} {{launch.run_id}}", flush=True)
{after}
"""


def job(
    command: list[str], *, name: str = "experiment", replicas: int = 1, resources: str = "", more: str = ""
) -> str:
    asked = f", resource_requirements=clusterfudge.Resources({resources})" if resources else ""
    process = f"clusterfudge.Process(command={command!r}{asked})"
    return f"clusterfudge.Job(short_name={name!r}, replicas={replicas}, processes=[{process}]{more})"


def launched(lab: Shell, text: str, *options: str, code: int = 0) -> tuple[Result, str]:
    """Run a launch script; what it printed, and the run it launched last."""
    lab.write("launch.py", text)
    result = lab.tarmac("launch", *options, "launch.py", code=code)
    found = re.findall(r"launched \d+ \S+ (\S+)", result.stdout)
    return result, found[-1] if found else ""


def nodes_of(lab: Shell, run: str) -> list[str]:
    names: list[str] = lab.json("show", run)["attempts"][-1]["nodes"]
    return sorted(name.split(".")[0] for name in names)

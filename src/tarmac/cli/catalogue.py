"""The table of commands: name, module, help line in `tarmac --help`. Used by `main` and the docs tool.

The program's help is made from this table, so that no command is imported before it is called.
"""

from __future__ import annotations

from dataclasses import dataclass

_HOME = "tarmac.cli.commands"
_SESSIONS = f"{_HOME}.sessions"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its module and attribute, its one-line help, its section in the list."""

    section: str
    module: str
    attribute: str
    help: str


COMMANDS: dict[str, Entry] = {
    "run": Entry("Runs", f"{_HOME}.run", "run", "Submit a run and follow it to its end."),
    "launch": Entry("Runs", f"{_HOME}.launch", "launch", "Start a Clusterfudge launch script as it is."),
    "experiment": Entry(
        "Runs", f"{_HOME}.experiment", "experiment", "Create and follow experiments as with Determined."
    ),
    "ls": Entry("Runs", f"{_HOME}.ls", "ls", "List runs."),
    "projects": Entry("Runs", f"{_HOME}.usage", "projects", "List the projects that runs belong to."),
    "show": Entry("Runs", f"{_HOME}.show", "show", "Show one run: state, attempts, workers, metrics."),
    "logs": Entry("Runs", f"{_HOME}.logs", "logs", "Print what the workers of a run wrote."),
    "attach": Entry("Runs", f"{_SESSIONS}.attach", "attach", "Follow a run that goes on; Ctrl-C leaves it."),
    "exec": Entry("Runs", f"{_SESSIONS}.exec", "exec_command", "Run a command beside a worker of a run."),
    "shell": Entry(
        "Runs", f"{_SESSIONS}.shell", "shell", "Open a terminal beside a worker, or on own slots."
    ),
    "jupyter": Entry("Runs", f"{_SESSIONS}.jupyter", "jupyter", "Run JupyterLab in a run of its own."),
    "port-forward": Entry(
        "Runs", f"{_SESSIONS}.forward", "port_forward", "Reach ports beside a worker of a run."
    ),
    "queue": Entry("Runs", f"{_HOME}.queue", "queue", "Show the queue of each pool, and change its order."),
    "top": Entry("Runs", f"{_HOME}.runs.top", "top", "Show nodes, slots and the queue, every second."),
    "why": Entry("Runs", f"{_HOME}.why", "why", "Say why a run is waiting, or why it ended."),
    "metrics": Entry("Runs", f"{_HOME}.metrics", "metrics", "Show the progress and metrics a run reported."),
    "diff": Entry("Runs", f"{_HOME}.runs.diff", "diff", "Show what differs between two runs."),
    "label": Entry("Runs", f"{_HOME}.runs.annotate", "label", "Set and remove labels of a run."),
    "note": Entry("Runs", f"{_HOME}.runs.annotate", "note", "Add a note to a run, or print its notes."),
    "wait": Entry("Runs", f"{_HOME}.wait", "wait", "Wait until runs have ended."),
    "stop": Entry("Runs", f"{_HOME}.acts", "stop", "End runs for good."),
    "pause": Entry("Runs", f"{_HOME}.acts", "pause", "Pause runs: they leave their slots until resumed."),
    "resume": Entry("Runs", f"{_HOME}.acts", "resume", "Queue paused runs again."),
    "rm": Entry("Runs", f"{_HOME}.acts", "rm", "Remove ended runs with their files."),
    "init": Entry(
        "Run files", f"{_HOME}.init", "init", "Write a run file and a training script to begin with."
    ),
    "check": Entry("Run files", f"{_HOME}.check", "check", "Check run files without a server."),
    "convert": Entry(
        "Run files", f"{_HOME}.check", "convert", "Print a run file of any dialect as a native one."
    ),
    "nodes": Entry("Machines", f"{_HOME}.nodes", "nodes", "List nodes and what runs on them; drain them."),
    "files": Entry("Files", f"{_HOME}.runs.files", "files", "List and fetch what a run worked in."),
    "artifacts": Entry(
        "Files", f"{_HOME}.artifacts", "artifacts", "List, fetch and remove what runs left behind."
    ),
    "datasets": Entry("Files", f"{_HOME}.artifacts", "datasets", "List, add and remove data that runs read."),
    "images": Entry("Machines", f"{_HOME}.images", "images", "List, pull and remove images on the nodes."),
    "secret": Entry("Files", f"{_HOME}.secret", "secret", "Set, list and remove keys that runs are given."),
    "usage": Entry("Machines", f"{_HOME}.usage", "usage", "Show the slot-hours of users, projects or pools."),
    "clusters": Entry("Machines", f"{_HOME}.clusters", "clusters", "List clusters; add and remove them."),
    "cluster": Entry(
        "Machines", f"{_HOME}.clusters", "cluster", "Start a cluster on your servers over SSH, and end it."
    ),
    "sites": Entry("Machines", f"{_HOME}.sites", "sites", "List HPC sites that are known by their URLs."),
    "simulate": Entry(
        "Machines", f"{_HOME}.simulate", "simulate", "Play traces or your history through the scheduler."
    ),
    "server": Entry("Machines", f"{_HOME}.server", "server", "Start, stop or look at your own server."),
    "doctor": Entry(
        "Machines", "tarmac.cli.doctor.command", "doctor", "Say what works on this machine, and what to do."
    ),
    "completion": Entry("Shell", "tarmac.cli.completing", "completion", "Print a shell completion script."),
}

"""The table of commands: name, module, help line in `tarmac --help`, and the words of other programs.

Used by `main` and the docs tool. The program's help is made from this table, so that no command is imported
before it is called.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its module and attribute, its one-line help."""

    module: str
    attribute: str
    help: str


SECTIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Runs": (
        ("run", "commands.run", "Submit a run and follow it to its end."),
        ("launch", "commands.launch", "Start a Clusterfudge launch script as it is."),
        ("experiment", "commands.experiment", "Create and follow experiments as with Determined."),
        ("ls", "commands.ls", "List runs."),
        ("projects", "commands.usage", "List the projects that runs belong to."),
        ("show", "commands.show", "Show one run: state, attempts, workers, metrics."),
        ("logs", "commands.logs", "Print what the workers of a run wrote."),
        ("attach", "commands.logs", "Follow a run that goes on; Ctrl-C leaves it."),
        ("exec", "commands.sessions.exec", "Run a command beside a worker of a run."),
        ("shell", "commands.sessions.shell", "Open a terminal beside a worker, or on own slots."),
        ("jupyter", "commands.sessions.shell", "Run JupyterLab in a run of its own."),
        ("port-forward", "commands.sessions.forward", "Reach ports beside a worker of a run."),
        ("queue", "commands.queue", "Show the queue of each pool, and change its order."),
        ("top", "commands.runs.top", "Show nodes, slots and the queue, every second."),
        ("why", "commands.why", "Say why a run is waiting, or why it ended."),
        ("metrics", "commands.metrics", "Show the progress and metrics a run reported."),
        ("diff", "commands.runs.diff", "Show what differs between two runs."),
        ("label", "commands.runs.annotate", "Set and remove labels of a run."),
        ("note", "commands.runs.annotate", "Add a note to a run, or print its notes."),
        ("wait", "commands.acts", "Wait until runs have ended."),
        ("stop", "commands.acts", "End runs for good."),
        ("pause", "commands.acts", "Pause runs: they leave their slots until resumed."),
        ("resume", "commands.acts", "Queue paused runs again."),
        ("rm", "commands.acts", "Remove ended runs with their files."),
    ),
    "Run files": (
        ("init", "commands.init", "Write a run file and a training script to begin with."),
        ("check", "commands.check", "Check run files without a server."),
        ("convert", "commands.check", "Print a run file of any dialect as a native one."),
    ),
    "Machines": (
        ("nodes", "commands.nodes", "List nodes and what runs on them; drain them."),
        ("images", "commands.images", "List, pull and remove images on the nodes."),
        ("usage", "commands.usage", "Show the slot-hours of users, projects or pools."),
        ("clusters", "commands.clusters", "List clusters; add and remove them."),
        ("cluster", "commands.clusters", "Start a cluster on your servers over SSH, and end it."),
        ("sites", "commands.sites", "List HPC sites that are known by their URLs."),
        ("simulate", "commands.simulate", "Play traces or your history through the scheduler."),
        ("server", "commands.server", "Start, stop or look at your own server."),
        ("doctor", "doctor.command", "Say what works on this machine, and what to do."),
    ),
    "Files": (
        ("files", "commands.runs.files", "List and fetch what a run worked in."),
        ("artifacts", "commands.artifacts", "List, fetch and remove what runs left behind."),
        ("datasets", "commands.artifacts", "List, add and remove data that runs read."),
        ("secret", "commands.secret", "Set, list and remove keys that runs are given."),
    ),
    "Shell": (("completion", "completing", "Print a shell completion script."),),
}
"""The commands of each section: name, module in this package, help."""

COMMANDS: dict[str, Entry] = {
    name: Entry(f"tarmac.cli.{module}", name.replace("-", "_"), text)
    for commands in SECTIONS.values()
    for name, module, text in commands
}

_WORDS = {
    "stop": "abort cancel end interrupt kill qdel bkill scancel terminate",
    "pause": "hold suspend",
    "resume": "continue release",
    "run --clone": "restart rerun retry requeue",
    "rm": "clean delete destroy prune remove",
    "run": "apply create execute qsub bsub sbatch srun start submit train",
    "show": "describe get info inspect scontrol status",
    "ls": "jobs list ps runs",
    "ls --all": "sacct history",
    "queue": "qstat bjobs squeue",
    "why": "explain reason",
    "logs": "log output stdout",
    "logs -f": "tail follow watch",
    "shell": "ssh bash connect",
    "jupyter": "notebook lab",
    "port-forward": "forward proxy tunnel",
    "metrics": "report",
    "nodes": "sinfo hosts machines gpus",
    "nodes drain": "cordon drain",
    "nodes undrain": "uncordon undrain",
    "clusters": "partitions context",
    "artifacts ls": "checkpoints",
    "artifacts get": "download",
    "datasets": "dataset",
    "secret": "secrets",
    "check": "lint validate verify",
    "convert": "translate",
    "experiment": "sweep trial",
    "queue set": "priority",
    "clusters check": "agent agents",
    "cluster up": "up",
    "cluster down": "down",
    "server": "daemon",
    "completion": "autocomplete",
    "--version": "version",
    "--help": "help",
}
"""Commands of other programs that mean the same as ours."""

SYNONYMS = {word: ours for ours, words in _WORDS.items() for word in words.split()}

"""The table of commands: name, module, help line in `tarmac --help`, and the words of other programs.

Used by `main` and the docs tool. The program's help is made from this table, so that no command is imported
before it is called.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """One command: its module, where it has its own name, and its one-line help."""

    module: str
    help: str


SECTIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Runs": (
        ("run", "tarmac.cli.commands.run", "Submit a run and follow it to its end."),
        ("launch", "tarmac.systems.clusterfudge.command", "Start a Clusterfudge launch script as it is."),
        (
            "experiment",
            "tarmac.systems.determined.command",
            "Create and follow experiments as with Determined.",
        ),
        ("ls", "tarmac.cli.commands.ls", "List runs."),
        ("projects", "tarmac.cli.commands.usage", "List the projects that runs belong to."),
        ("show", "tarmac.cli.commands.show", "Show one run: state, attempts, workers, metrics."),
        ("logs", "tarmac.cli.commands.logs", "Print what the workers of a run wrote."),
        ("attach", "tarmac.cli.commands.logs", "Follow a run that goes on; Ctrl-C leaves it."),
        ("exec", "tarmac.cli.commands.exec", "Run a command beside a worker of a run."),
        ("shell", "tarmac.cli.commands.shell", "Open a terminal beside a worker, or on own slots."),
        ("jupyter", "tarmac.cli.commands.shell", "Run JupyterLab in a run of its own."),
        ("port-forward", "tarmac.cli.commands.forward", "Reach ports beside a worker of a run."),
        ("queue", "tarmac.cli.commands.queue", "Show the queue of each pool, and change its order."),
        ("top", "tarmac.cli.commands.top", "Show nodes, slots and the queue, every second."),
        ("ui", "tarmac.cli.commands.ui", "Open the page of the server in a browser."),
        ("why", "tarmac.cli.commands.why", "Say why a run is waiting, or why it ended."),
        ("metrics", "tarmac.cli.commands.metrics", "Show the progress and metrics a run reported."),
        ("diff", "tarmac.cli.commands.runs", "Show what differs between two runs."),
        ("label", "tarmac.cli.commands.runs", "Set and remove labels of a run."),
        ("note", "tarmac.cli.commands.runs", "Add a note to a run, or print its notes."),
        ("wait", "tarmac.cli.commands.acts", "Wait until runs have ended."),
        ("stop", "tarmac.cli.commands.acts", "End runs for good."),
        ("pause", "tarmac.cli.commands.acts", "Pause runs: they leave their slots until resumed."),
        ("resume", "tarmac.cli.commands.acts", "Queue paused runs again."),
        ("rm", "tarmac.cli.commands.acts", "Remove ended runs with their files."),
    ),
    "Run files": (
        ("init", "tarmac.cli.commands.init", "Write a run file and a training script to begin with."),
        ("check", "tarmac.cli.commands.check", "Check run files without a server."),
        ("convert", "tarmac.cli.commands.check", "Print a run file of any dialect as a native one."),
    ),
    "Machines": (
        ("nodes", "tarmac.cli.commands.nodes", "List nodes and what runs on them; drain or reserve them."),
        ("images", "tarmac.cli.commands.images", "List, pull and remove images on the nodes."),
        ("usage", "tarmac.cli.commands.usage", "Show slot-hours by user, project, pool, day or month."),
        ("limits", "tarmac.cli.people.limits", "Limit users, projects and pools."),
        ("credits", "tarmac.cli.people.limits", "Show and grant credits, and print their ledger."),
        ("clusters", "tarmac.cli.commands.clusters", "List clusters; add and remove them."),
        ("cluster", "tarmac.cli.commands.clusters", "Start a cluster on your servers over SSH, and end it."),
        ("burst", "tarmac.cli.burst.rentals", "Show rented machines, and approve runs that need some."),
        ("shapes", "tarmac.cli.burst.shapes", "List, add and refresh shapes of rented machines."),
        ("providers", "tarmac.cli.burst.providers", "List, add and remove providers of machines."),
        ("sites", "tarmac.systems.mantik.command", "List HPC sites that are known by their URLs."),
        ("simulate", "tarmac.cli.commands.simulate", "Play traces or your history through the scheduler."),
        ("server", "tarmac.cli.commands.server", "Start, stop or look at your own server."),
        ("doctor", "tarmac.cli.doctor.command", "Say what works on this machine, and what to do."),
    ),
    "Files": (
        ("files", "tarmac.cli.commands.runs", "List and fetch what a run worked in."),
        ("artifacts", "tarmac.cli.commands.artifacts", "List, fetch and remove what runs left behind."),
        ("datasets", "tarmac.cli.commands.artifacts", "List, add and remove data that runs read."),
        ("secret", "tarmac.cli.commands.secret", "Set, list and remove keys that runs are given."),
    ),
    "People": (
        ("login", "tarmac.cli.people.tokens", "Log in to a server that several people share."),
        ("logout", "tarmac.cli.people.tokens", "Revoke the login, and forget it."),
        ("tokens", "tarmac.cli.people.tokens", "List, add and revoke tokens for programs."),
        ("users", "tarmac.cli.people.users", "List, add, change and remove accounts."),
        ("organisations", "tarmac.cli.people.users", "Say who may view and change whose runs."),
        ("members", "tarmac.cli.people.users", "Say who may use a project."),
        ("notifications", "tarmac.cli.people.notifications", "Set who is notified of all your runs."),
        ("audit", "tarmac.cli.people.tokens", "List changes and refusals."),
    ),
    "Shell": (("completion", "tarmac.cli.completing", "Print a shell completion script."),),
}
"""The commands of each section: name, module, help."""

COMMANDS = {name: Entry(module, text) for rows in SECTIONS.values() for name, module, text in rows}

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
    "nodes reserve": "reserve maintenance",
    "nodes reservations": "reservation reservations",
    "clusters": "partitions context",
    "artifacts ls": "checkpoints",
    "artifacts get": "download",
    "datasets": "dataset",
    "secret": "secrets",
    "check": "lint validate verify",
    "convert": "translate",
    "experiment": "sweep trial",
    "queue set": "priority",
    "limits": "quota quotas sacctmgr limit",
    "credits": "budget credit",
    "clusters check": "agent agents",
    "cluster up": "up",
    "burst": "rent rentals cloud",
    "burst approve": "approve",
    "shapes": "flavors flavours instances offers",
    "cluster down": "down",
    "server": "daemon",
    "completion": "autocomplete",
    "--version": "version",
    "--help": "help",
}
"""Commands of other programs that mean the same as ours."""

SYNONYMS = {word: ours for ours, words in _WORDS.items() for word in words.split()}

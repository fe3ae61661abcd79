"""Checks whether a Slurm meets the needs of runs, for `tarmac clusters check`. Called by `SlurmEngine`."""

import re
from collections.abc import Iterator, Mapping, Sequence

from tarmac.engines.hosts.host import Host, Reached
from tarmac.engines.hosts.installing import Sidecar, try_containers
from tarmac.engines.slurm.access import Examined
from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.partition import parse_partitions
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.launch.batch_script import amended
from tarmac.model.cluster import Finding
from tarmac.model.errors import Unavailable

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "sacct")
OLDEST_SLURM = (20, 11)
OLDEST_PYTHON = (3, 9)
LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_FILES = 10_000
LARGEST_CLOCK_GAP_S = 60.0

UNSEEN = 77
ON_A_NODE = f'echo "${{SLURMD_NODENAME:-a node}}"; test -d "$1" || exit {UNSEEN}; "$2" -I -S --version 2>&1'

_VERSION = re.compile(r"(?<![0-9])([0-9]{1,4})\.([0-9]{1,4})")


Checked = tuple[bool, str]
"""Whether all is well, and a sentence."""


def findings(settings: SlurmSettings, host: Host, examined: Examined) -> Sequence[Finding]:
    """All findings, regardless of bad ones, except those that need a failed connection."""
    try:
        reached = host.examine()
    except Unavailable as error:
        return [Finding(what="connection", ok=False, text=str(error))]
    commands = Commands(host=host)
    found = [
        *(_connection(reached) if reached is not None else ()),
        *((name, _program(commands, name)) for name in PROGRAMS),
        ("controller", _controller(commands)),
        ("accounting", _accounting(commands)),
        *_pools(settings, commands, examined),
        ("directory", _directory(host)),
        ("python", _python(settings, commands)),
        ("artifacts", (True, _artifacts(examined.sidecar, host))),
        ("images", (True, _images(commands, examined))),
    ]
    return [Finding(what=what, ok=ok, text=text) for what, (ok, text) in found]


def _connection(reached: Reached) -> Iterator[tuple[str, Checked]]:
    yield "connection", (True, reached.text)
    if abs(reached.ahead_s) > LARGEST_CLOCK_GAP_S:
        way = "ahead of" if reached.ahead_s > 0 else "behind"
        text = f"is {abs(reached.ahead_s):.0f} s {way} the one of this machine: times would be wrong by that"
        yield "clock", (False, text)


def _program(commands: Commands, name: str) -> Checked:
    try:
        text = commands.query([name, "--version"]).strip()
    except Unavailable as error:
        place = "the server's PATH" if commands.host.where == "here" else "the PATH of a login shell there"
        return False, f"{error}: is Slurm's client installed, and in {place}?"
    found = _VERSION.search(text)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST_SLURM:
        return False, f"{text}: older than 20.11, which is the oldest that works"
    return True, text


def _controller(commands: Commands) -> Checked:
    try:
        commands.query(["squeue", "--me", "--noheader"])
    except Unavailable as error:
        return False, str(error)
    return True, "answers"


def _accounting(commands: Commands) -> Checked:
    """Optional: without accounting, the engine knows a job that left the queue by its directory alone."""
    try:
        answer = commands.run(["sacct", "--noheader", "--starttime=now-1hours"])
    except Unavailable as error:
        return True, f"none ({error})"
    return True, "answers" if answer.code == 0 else f"none ({answer.complaint})"


def _pools(settings: SlurmSettings, commands: Commands, examined: Examined) -> Iterator[tuple[str, Checked]]:
    try:
        known = parse_partitions(commands.query(["scontrol", "show", "partition", "-o"]))
        examined.site.read()
    except Unavailable as error:
        yield "partition", (False, str(error))
        return
    for pool in settings.pools:
        what = "partition" if len(settings.pools) == 1 else f"pool {pool.name}"
        checks = [_partition(name, known) for name in pool.partition.split(",")]
        yield from ((what, check) for check in checks)
        types = examined.site.partition(pool.name).types
        if pool.gpu_type is not None and not types:
            yield what, (False, f"partition {pool.partition} has no {pool.gpu_type}")
        elif types:
            yield what, (True, f"its GPUs: {', '.join(sorted(types.values()))}")
        if all(ok for ok, _ in checks):
            yield what, _test_job(pool, commands)
            yield what, _on_a_node(pool, commands, examined)


def _partition(name: str, known: Mapping[str, Mapping[str, str]]) -> Checked:
    fields = known.get(name)
    if fields is None:
        return False, f"there is no partition {name}; there are {', '.join(sorted(known)) or 'none'}"
    state, longest = fields.get("State", "?"), fields.get("MaxTime", "?")
    count = fields.get("TotalNodes", "?")
    return state == "UP", f"{name} is {state.lower()}, {count} nodes, at most {longest} for a job"


def _test_job(pool: PoolSettings, commands: Commands) -> Checked:
    """A job of one task for a minute, which Slurm validates but does not queue: account, QoS and the rest."""
    try:
        answer = commands.run(["sbatch", "--test-only", "--parsable", *_options(pool), "--wrap=true"])
    except Unavailable as error:
        return False, str(error)
    if answer.code == 0:
        return True, "a job would be taken"
    terms = " ".join(f"{name} {value}" for name, value in pool.terms.items())
    advice = commands.advice(answer)
    return False, f"a job would be refused ({terms}): {answer.complaint}{advice and f' ({advice})'}"


def _on_a_node(pool: PoolSettings, commands: Commands, examined: Examined) -> Checked:
    """A short step on a currently free node: whether it sees the directory, and has a Python."""
    home = commands.host.layout.home
    package, python = examined.installation.package, examined.installation.python
    task = ["sh", "-c", ON_A_NODE, "sh", package, python]
    try:
        examined.prepare()
        answer = commands.run(["srun", "--immediate=5", "--ntasks=1", *_options(pool), *task])
    except Unavailable as error:
        return True, f"no node was tried: {error}"
    node, _, text = answer.out.strip().partition("\n")
    if not node:
        return True, f"no node was tried: {answer.complaint}"
    if answer.code == UNSEEN:
        return False, f"{node} does not see {home}: the nodes have to share it with the machine of sbatch"
    if answer.code != 0 or _too_old(text):
        words = text or answer.complaint
        return False, f"{python} on {node}: {words}; the setting python names one of 3.9 or later"
    return True, f"{node} sees {home}, and has {text}"


def _options(pool: PoolSettings) -> list[str]:
    directives = amended(pool.terms, {"nodes": "1", "time": "1", "job-name": "tarmac-check"}, pool.extra)
    return [f"--{name}={value}" if value else f"--{name}" for name, value in directives.items()]


def _directory(host: Host) -> Checked:
    path = host.layout.home
    try:
        free_bytes, free_files = host.room()
    except OSError as error:
        return False, f"{path}: {error.strerror}"
    except Unavailable as error:
        return False, f"{path}: {error}"
    scarce = ""
    if free_bytes < LEAST_FREE_BYTES:
        scarce = f"{free_bytes >> 20} MiB left: runs need {LEAST_FREE_BYTES >> 20}"
    elif free_files is not None and free_files < LEAST_FREE_FILES:
        scarce = f"room for {free_files} more files: runs need {LEAST_FREE_FILES}"
    if scarce:
        return False, f"{path} has {scarce}; free some, or name another"
    return True, f"{path} can be written, {free_bytes >> 30} GiB left; all nodes must see it under that path"


def _python(settings: SlurmSettings, commands: Commands) -> Checked:
    """Tested on this host, as no node may be free."""
    try:
        text = commands.query([settings.python, "-I", "-S", "--version"]).strip()
    except Unavailable as error:
        return False, f"{error}: the setting python names that of the nodes"
    if _too_old(text):
        return False, f"{settings.python} is {text}: nodes need 3.9 or later"
    return True, f"{settings.python} is {text} {commands.host.where}"


def _too_old(text: str) -> bool:
    found = _VERSION.search(text)
    return found is None or (int(found[1]), int(found[2])) < OLDEST_PYTHON


def _images(commands: Commands, examined: Examined) -> str:
    """Tested on this host, like Python: nodes may differ. Most runs need no image: no result is an error."""
    try:
        examined.prepare()
        found = try_containers(commands.host, examined.installation, examined.driver)
        srun = commands.run(["srun", "--help"]).out
    except Unavailable as error:
        return f"not tried: {error}"
    where = commands.host.where
    text = f"{found.text} {where}" if found.works else f"no run starts in an image {where}: {found.text}"
    pyxis = "; srun has pyxis, which job scripts of your own may use" if "--container-image" in srun else ""
    return f"{text}; nodes may differ{pyxis}"


def _artifacts(sidecar: Sidecar | None, host: Host) -> str:
    """The facts that only a job could test: nodes write to the store themselves."""
    if sidecar is None:
        home = host.layout.home
        return f"stay in {home}; [artifacts] store = a URL that nodes reach keeps versions of them"
    if sidecar.at_site:
        return f"are kept in {sidecar.store}, and fetched from there over the connection"
    if sidecar.is_directory:
        return f"are kept in {sidecar.store}; nodes must see it under that path (or set [artifacts] store)"
    return f"are kept in {sidecar.store}; nodes must reach it, with credentials of their own"

"""The hooks of a run for the login node, as scripts that a site runs there around the job (K6). Pure.

Called by `SiteEngine`. The output of the first one is in the attempt's directory before its nodes are
known: the runner of the first node copies it into the log of the setup. The second one appends to that log.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.launch.quoting import assignment, join, quote
from tarmac.node.attempt import protocol, words
from tarmac.node.attempt.document import Argv, Launch

BEFORE, AFTER = "before_login", "after_login"
"""The hooks, and the names of their scripts."""

OUTPUT = "before_login.log"
_LEFT = "|".join(f'"{word}"' for word in (words.PAUSED, words.PREEMPTED, words.STOPPED, words.LOST))
_LONGEST_LINE = 500

APPEND = """log=$(grep -hs '"claimed"' {first}/{events} |
    sed -n 's/.*"name": *"\\([^"]*\\)".*/\\1/p' | tail -n 1)
exec >> {logs}/setup."${{log:-{rank}}}".log 2>&1
# They belong to the end of the run: not to a pause, nor to a stop.
if grep -hs '"ended"' {nodes}/*/{events} | grep -qE '{left}'; then exit 0; fi
"""


def without_login_hooks(launch: Launch, directory: Path) -> Launch:
    """The launch for nodes, where the output of the first hook takes the place of that hook."""
    hooks = {name: commands for name, commands in launch.hooks.items() if name not in (BEFORE, AFTER)}
    if launch.hooks.get(BEFORE):
        hooks[BEFORE] = (("cat", str(directory / OUTPUT)),)
    return launch._replace(hooks=hooks)


def login_scripts(launch: Launch, directory: Path) -> Mapping[str, str]:
    """The scripts by the names of their hooks; none for a run without such hooks."""
    found = {}
    if before := launch.hooks.get(BEFORE):
        found[BEFORE] = _script(launch, BEFORE, before, f"exec >> {quote(str(directory / OUTPUT))} 2>&1\n")
    if after := launch.hooks.get(AFTER):
        rank = protocol.rank_name(0)
        nodes = directory / protocol.NODES
        place = APPEND.format(
            first=quote(str(nodes / rank)),
            events=protocol.EVENTS_FILE,
            logs=quote(str(directory / protocol.LOGS)),
            rank=rank,
            nodes=quote(str(nodes)),
            left=_LEFT,
        )
        found[AFTER] = _script(launch, AFTER, after, place)
    return found


def _script(launch: Launch, name: str, commands: Sequence[Argv], beginning: str) -> str:
    """The commands in order, each after the success of the one before."""
    exports = [f"export {assignment(key, value)}" for key, value in launch.setup_env.items() if key != "PATH"]
    lines = []
    for argv in commands:
        lines += [f"echo {quote(f'+ {name}: {join(argv)}'[:_LONGEST_LINE])}", f"{join(argv)} || exit"]
    return beginning + "\n".join([*exports, *lines]) + "\n"

"""`tarmac doctor`: the features that work on this machine, those that do not, and the effect on runs.

The server and its clusters are checked here, if they are reachable; the other modules check this machine.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence

import tarmac
from tarmac import api
from tarmac.cli.commands.server import version_text
from tarmac.cli.dialogue import answer, connect
from tarmac.cli.doctor.machine import Finding, State, machine_findings, missing, ok, program_findings, warn
from tarmac.cli.lazy import command
from tarmac.cli.views.terminal import Terminal, stdout_terminal
from tarmac.client import Client
from tarmac.model import cluster as clusters
from tarmac.model.errors import TarmacError, Unavailable

LARGEST_CLOCK_GAP_S = 5.0

_STYLES = {State.OK: "green", State.WARN: "yellow", State.MISSING: "red"}
_STATE_COLUMNS = 9
_WHAT_COLUMNS = 19


@command()
def doctor() -> None:
    """Say what works on this machine and on the clusters of its server, and what to do about the rest.

    Nothing is started or changed. The exit code is 1 if something is missing that every run needs.
    """
    client = connect(start=False)
    found = [
        *machine_findings(client.home),
        *program_findings(ray_elsewhere=has_ray_elsewhere(client)),
        *server_findings(client, url=os.environ.get("TARMAC_URL") or None),
    ]
    broken = any(finding.stops_runs for finding in found)
    text = "\n".join(finding_text(finding, stdout_terminal()) for finding in found)
    answer({"ok": not broken, "findings": found}, text)
    if broken:
        sys.exit(1)


def finding_text(finding: Finding, terminal: Terminal) -> str:
    """The line of a finding and, unless it is ok, a line with its meaning."""
    state = terminal.paint(finding.state.ljust(_STATE_COLUMNS), _STYLES[finding.state])
    lines = [f"{state}{finding.what.ljust(_WHAT_COLUMNS)} {finding.text}"]
    if finding.meaning:
        lines.append(" " * _STATE_COLUMNS + terminal.paint(f"{'':{_WHAT_COLUMNS}} {finding.meaning}", "dim"))
    return "\n".join(lines)


def server_findings(client: Client, *, url: str | None) -> Iterator[Finding]:
    """The server that commands in this environment use; an absent one is not started."""
    before = time.time()
    try:
        version = client.version()
    except Unavailable as error:
        yield _absent(error, url=url)
        return
    except TarmacError as error:
        yield missing("server", str(error), "TARMAC_URL and TARMAC_TOKEN name the server.", needed=True)
        return
    yield _running(version, url=url)
    if url is not None and version.now is not None:
        yield clock(version.now - (before + time.time()) / 2)
    yield from _clusters(client)


def has_ray_elsewhere(client: Client) -> bool:
    """Whether the server has Ray clusters, and each names a Python of its own."""
    try:
        rays = [each.settings for each in client.clusters() if each.engine == "ray"]
    except TarmacError:
        return False
    return bool(rays) and all("python" in settings for settings in rays)


def clock(ahead_s: float) -> Finding:
    """The difference between the clock of a server elsewhere and this machine's."""
    text = f"the server's is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    if abs(ahead_s) > LARGEST_CLOCK_GAP_S:
        return warn("clock", text, "Times that commands print are wrong by that: set both by NTP.")
    return ok("clock", "the same as the server's")


def cluster(name: str, findings: Sequence[clusters.Finding]) -> Finding:
    """The findings about one cluster, in one line."""
    what = f"cluster {name}"
    bad = [finding for finding in findings if not finding.ok]
    if not bad:
        return ok(what, "has what runs need")
    text = "; ".join(f"{finding.what}: {finding.text}" for finding in bad)
    return missing(what, text, f"Runs cannot start there. All that was tried: tarmac clusters check {name}")


def _absent(error: TarmacError, *, url: str | None) -> Finding:
    if url is not None:
        return missing("server", str(error), f"TARMAC_URL names it ({url}).", needed=True)
    if "stopped by a signal" in error.message:
        return missing("server", error.message, error.hint or "", needed=True)
    return ok("server", "none runs; the next command that needs one starts it")


def _running(version: api.Version, *, url: str | None) -> Finding:
    text = f"{version_text(version)}, {url or f'home {version.home}'}"
    if version.version != tarmac.__version__:
        meaning = (
            f"This command is of version {tarmac.__version__}: tarmac server restart; runs go on meanwhile."
        )
        return warn("server", text, meaning)
    return ok("server", text)


def _clusters(client: Client) -> Iterator[Finding]:
    try:
        names = [known.name for known in client.clusters()]
    except TarmacError as error:
        yield warn("clusters", str(error), "They could not be listed.")
        return
    for name in names:
        try:
            yield cluster(name, client.check_cluster(name))
        except TarmacError as error:
            yield warn(f"cluster {name}", str(error), "It could not be checked.")

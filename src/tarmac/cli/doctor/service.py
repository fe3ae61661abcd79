"""Checks the server and its clusters, if they are reachable. Called by `tarmac doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import tarmac
from tarmac.cli.doctor.finding import Finding, missing, ok, warn
from tarmac.cli.views.amounts import age
from tarmac.model.errors import TarmacError, Unavailable

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.client import Client
    from tarmac.model import engine_kinds

LARGEST_CLOCK_GAP_S = 5.0


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


def cluster(name: str, findings: Sequence[engine_kinds.Finding]) -> Finding:
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
    where = url or f"home {version.home}"
    text = (
        f"tarmac {version.version}, pid {version.pid}, "
        f"started {age(version.started_at, time.time())}, {where}"
    )
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

"""`LoginNode`: short commands on the login node, as jobs that no batch system queues. Used by `files`."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import Any

from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.states import ENDED
from tarmac.model.errors import Unavailable

LIMIT_S = 120.0
SHORTEST_REST_S = 0.1
LONGEST_REST_S = 2.0


class LoginNode:
    """Runs a command to its end, of plain words: UNICORE joins them into a line of shell."""

    def __init__(self, site: Unicore) -> None:
        self._site = site

    def run(self, *argv: str, until: Callable[[], bool]) -> str:
        """Run a command until it has ended, or its effect is there; returns the site's words for a failure.

        Raises Unavailable if neither comes in time: the command may still run later.
        """
        described = {"Job type": "ON_LOGIN_NODE", "Executable": argv[0], "Arguments": list(argv[1:])}
        job = self._site.create("/jobs", described)
        deadline, rest_s = time.monotonic() + LIMIT_S, SHORTEST_REST_S
        facts: Mapping[str, Any] = {}
        while not until():
            facts = self._site.get(f"/jobs/{job}")
            if facts.get("status") in ENDED:
                break
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{self._site.url}: a command on the login node did not end in {LIMIT_S:.0f} s"
                )
            Event().wait(rest_s)
            rest_s = min(LONGEST_REST_S, rest_s * 1.5)
        with suppress(Unavailable):
            self._site.call("DELETE", f"/jobs/{job}")
        return str(facts.get("statusMessage") or "")

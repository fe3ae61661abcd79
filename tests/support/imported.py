"""What a command of `tarmac` has imported by its end, for tests that hold it to a budget.

What is imported is the most of what a short command costs, and unlike a time it is the same on every machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

_CODE = """
import sys
from tarmac.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(*sys.modules, sep="\\n", file=sys.stderr)
    raise
"""

ARCHIVES = ("bz2", "lzma", "zipfile", "tarfile")
LIBRARIES = ("yaml", "asyncio", "sqlalchemy", "pydantic", "importlib.metadata")
PATHS = ("pathlib", "urllib.parse", "ipaddress")
HTTP = ("http.client", "email", "ssl")
REQUESTS = (*HTTP, "tarmac.client")
STARTS = ("subprocess", "difflib", "click.shell_completion")
CORE = ("tarmac.model.run", "tarmac.model.spec", "tarmac.dialects", "tarmac.launch", "tarmac.sched")


def loaded(*arguments: str, **variables: str) -> set[str]:
    """The modules that `tarmac ARGUMENTS` has imported; it must succeed."""
    result = subprocess.run(
        [sys.executable, "-c", _CODE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1", **variables},
    )
    return set(result.stderr.split())


def among(modules: set[str], *forbidden: str) -> list[str]:
    """Those of `modules` that are one of `forbidden` or lie in it."""
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in forbidden))

"""The sidecar by path, without an installed tarmac: `python .../tarmac/artifacts/versions sync ...`.

Called by runners, with the command that an engine has put into attempt.json. Its requirements are copied with
it and run on Python 3.9 and later: `versions`, `remote`, `model.errors` and `node`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Run by path: the package's own directory must not shadow the standard library.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tarmac.artifacts.versions.sidecar import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The far end of a session, run by path: `python .../tarmac/node/session FD`. Called through `starting`.

An entry of its own, because a person waits for it: it imports nothing of runners.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[3])  # as in `node.__main__`

from tarmac.node.session.serving import serve

if __name__ == "__main__":
    serve(int(sys.argv[1]))

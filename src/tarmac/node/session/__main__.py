"""The far end of a session, run by path: `python .../tarmac/node/session FD`. Called through `starting`.

`- MARK` instead of the descriptor: on standard input and output (see `serve_standard_streams`).

A separate entry, because a person waits for it: it imports no module of runners.
"""

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[3])  # as in `node.__main__`

from tarmac.node.session.serving import serve, serve_standard_streams

if __name__ == "__main__":
    if sys.argv[1] == "-":
        serve_standard_streams(sys.argv[2])
    serve(int(sys.argv[1]))

"""The entry point by path: `python .../tarmac/node run DIRECTORY NODE` (`join`, `take`, `warm`).

Called by engines, through `starting`. If tarmac is not installed, it puts its own copy on the path.
"""

from __future__ import annotations

import os
import sys

if not __package__:
    # Run by path: the package's own directory must not shadow the standard library.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

from tarmac.node.entry import main

if __name__ == "__main__":
    main(sys.argv[1:])

"""The first code at the far end of a connection: it receives this package over the connection.

Sent as text by `engines/hosts/connection.py`, before anything else, with a call of `load` after it. The
package stays in memory: nothing is installed. Any Python 3 can run this code, to report that it is too old.
"""

import importlib.abc
import importlib.util
import json
import os
import sys
import zlib

OLDEST = (3, 9)


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Modules from memory: their texts by name."""

    def __init__(self, texts):  # type: ignore[no-untyped-def]
        self._texts = texts

    def find_spec(self, fullname, path, target=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
        """Find a received module."""
        if fullname in self._texts:
            package = self.is_package(fullname)  # type: ignore[no-untyped-call]
            spec = importlib.util.spec_from_loader(fullname, self, is_package=package)
            assert spec is not None, "there is a loader"
            spec.origin, spec.has_location = "/memory/" + fullname.replace(".", "/") + ".py", True
            return spec
        return None

    def get_source(self, fullname):  # type: ignore[no-untyped-def]
        """The source of a module."""
        return self._texts[fullname]

    def is_package(self, fullname):  # type: ignore[no-untyped-def]
        """Whether a module is a package."""
        return any(name.startswith(fullname + ".") for name in self._texts)


def load(mark, size_bytes, begin):  # type: ignore[no-untyped-def]
    """Receive modules of `size_bytes`, report with the mark, and let the module `begin` serve."""
    output = os.dup(1)
    os.dup2(2, 1)  # other output must not disturb messages
    if sys.version_info < OLDEST:
        os.write(output, ("\n" + mark + " old " + sys.version.split()[0] + "\n").encode())
        return
    texts = json.loads(zlib.decompress(sys.stdin.buffer.read(size_bytes)))
    sys.meta_path.insert(0, Modules(texts))  # type: ignore[no-untyped-call]
    serving = importlib.import_module(begin)
    os.write(output, ("\n" + mark + " ready\n").encode())
    serving.serve(sys.stdin.buffer, output)

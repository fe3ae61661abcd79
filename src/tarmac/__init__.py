"""tarmac: launches machine-learning training on whatever cluster you have.

What programs use is named here and loaded at first use, so that the command line starts quickly. Type
checkers read `__init__.pyi`; a test holds the two to one another.
"""

from importlib import import_module

__version__ = "0.1.0"

_CLIENT = "tarmac.client"

_LAZY = {
    "Client": _CLIENT,
    "LocalDir": _CLIENT,
    "Process": _CLIENT,
    "Resources": _CLIENT,
    "Role": _CLIENT,
    "Run": _CLIENT,
}
"""Public name -> the module that has it."""

__all__ = ["Client", "LocalDir", "Process", "Resources", "Role", "Run", "__version__"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

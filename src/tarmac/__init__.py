"""tarmac: launches machine-learning training on whatever cluster you have.

What programs use is named here and loaded at first use, so that the command line starts quickly. Type
checkers read `__init__.pyi`; a test holds the two to one another.
"""

from importlib import import_module

__version__ = "0.1.0"

_CLIENT = "tarmac.client"
_ERRORS = "tarmac.model.errors"
_LAUNCHING = "tarmac.client.launching"
_SDK = "tarmac.node.sdk"

_LAZY = {
    "Client": _CLIENT,
    "Forbidden": _ERRORS,
    "GitRepo": _LAUNCHING,
    "InvalidInput": _ERRORS,
    "LocalDir": _LAUNCHING,
    "NeverFits": _ERRORS,
    "NotFound": _ERRORS,
    "Problem": _ERRORS,
    "Process": _LAUNCHING,
    "Refused": _ERRORS,
    "Resources": _LAUNCHING,
    "Role": _LAUNCHING,
    "Run": _LAUNCHING,
    "StorageFull": _ERRORS,
    "TarmacError": _ERRORS,
    "TooLarge": _ERRORS,
    "TooManyRequests": _ERRORS,
    "Unauthorized": _ERRORS,
    "Unavailable": _ERRORS,
    "WaitTimeout": _ERRORS,
    "checkpoint": _SDK,
    "finished": _SDK,
    "latest_checkpoint": _SDK,
    "parameters": _SDK,
    "report": _SDK,
    "should_pause": _SDK,
    "time_left": _SDK,
}
"""Public name -> the module that has it."""

_MODULES = {"clusterfudge": "tarmac.systems.clusterfudge.scripts"}
"""Modules that are public by themselves."""

__all__ = [
    "Client",
    "Forbidden",
    "GitRepo",
    "InvalidInput",
    "LocalDir",
    "NeverFits",
    "NotFound",
    "Problem",
    "Process",
    "Refused",
    "Resources",
    "Role",
    "Run",
    "StorageFull",
    "TarmacError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "WaitTimeout",
    "__version__",
    "checkpoint",
    "clusterfudge",
    "finished",
    "latest_checkpoint",
    "parameters",
    "report",
    "should_pause",
    "time_left",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)

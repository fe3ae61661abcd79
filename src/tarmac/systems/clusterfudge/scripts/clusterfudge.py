"""The module from which scripts import names that the package itself did not export.

Runs on Python 3.9: see the package.
"""

from __future__ import annotations

from . import *  # noqa: F403 - all that the package offers, under its older name

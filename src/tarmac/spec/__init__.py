"""Dialects to `RunSpec`: one reader each. Called by the server and by `tarmac check`."""

from tarmac.spec.dialect import Reading
from tarmac.spec.dialects import read
from tarmac.spec.overrides import override

__all__ = ["Reading", "override", "read"]

"""Dialects to `RunSpec`: one reader for each. Called by the server and by `tarmac check`."""

from tarmac.dialects.dialect import Reading
from tarmac.dialects.overrides import override
from tarmac.dialects.registry import changed, read

__all__ = ["Reading", "changed", "override", "read"]

"""The words by which a launch request is recognised, and the names of accelerators.

Used by the tables of the request and the check of scripts.
"""

from functools import partial

from tarmac.dialects import schema

record = partial(schema.record, nulls=True)
"""A mapping in which null is the same as absent."""

MARK, KIND = "clusterfudge", "CreateLaunchRequest"
"""The field and value that mark a text as a request."""

SLOT_TYPES = (
    *("a100_40gb", "a100_80gb", "h100", "rtx3080", "rtx3090", "rtx6000", "t4", "l4", "v100", "p100"),
    *("p4", "rtx4090", "rtx4080", "rtx3070", "rtx3060", "rtx4070", "rtx4060", "rtx3050", "gtx1050", "h200"),
)
"""The accelerators that Clusterfudge knows; tarmac's slot types have the same names."""

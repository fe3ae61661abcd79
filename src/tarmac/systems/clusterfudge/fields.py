"""The fields of a launch request, mapping by mapping, as `scripts.form` writes them.

Used by the reader; the check of scripts uses the names of accelerators.
"""

from tarmac.dialects.section import Fields, words_for

MARK, KIND = "clusterfudge", "CreateLaunchRequest"
"""The field and value that mark a text as a request."""

SLOT_TYPES = (
    *("a100_40gb", "a100_80gb", "h100", "rtx3080", "rtx3090", "rtx6000", "t4", "l4", "v100", "p100"),
    *("p4", "rtx4090", "rtx4080", "rtx3070", "rtx3060", "rtx4070", "rtx4060", "rtx3050", "gtx1050", "h200"),
)
"""The accelerators that Clusterfudge knows; tarmac's slot types have the same names."""

REQUEST = Fields(
    known=frozenset(
        {MARK, "jobs", "name", "description", "deployment", "cluster", "shard", "hostnames"}
        | {"queueing_behaviour", "launch_script", "launch_script_body"}
    ),
    synonyms=words_for(name="title", hostnames="hosts", queueing_behaviour="queueing", jobs="job"),
)
DEPLOYMENT = Fields(known=frozenset({"local_dir", "git_repo"}))

"""What a run of a Mantik configuration finds beside the variables of every worker. Declared once.

`launch.site_steps` sets the first, the reader the second; a test compares this with docs/dialects/mantik.md.
"""

from __future__ import annotations

from tarmac.model.variables import Giver, Variable

VARIABLES = (
    Variable(
        "MANTIK_WORKING_DIRECTORY", Giver.CONTRACT, "the run's directory on the node, with the project in it"
    ),
    Variable(
        "SRUN_CPUS_PER_TASK", Giver.DEFAULT, "CPUsPerNode, where that is given: what srun takes for a task"
    ),
)

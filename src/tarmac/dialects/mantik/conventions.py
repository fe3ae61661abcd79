"""What a run of a Mantik configuration finds beside the variables of every worker. Declared once.

`launch.site_steps` sets the first two, the reader the third; a test compares this with the dialect's page.
"""

from __future__ import annotations

from tarmac.model.variables import Giver, Variable

VARIABLES = (
    Variable(
        "MANTIK_WORKING_DIRECTORY", Giver.CONTRACT, "the run's directory on the node, with the project in it"
    ),
    Variable(
        "UC_WORKING_DIRECTORY", Giver.CONTRACT, "the same behind UNICORE, which sets it on its sites itself"
    ),
    Variable(
        "SRUN_CPUS_PER_TASK", Giver.DEFAULT, "CPUsPerNode, where that is given: what srun takes for a task"
    ),
)

"""The variables and files that MCLI promises to its runs, declared once.

`dialects.mcli.equip` sets them; docs/dialects/mcli.md lists them (a test compares the two).
"""

from __future__ import annotations

from tarmac.model.variables import Giver, Variable

NUM_NODES = "NUM_NODES"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
RUN_NAME = "RUN_NAME"
COMPOSER_RUN_NAME = "COMPOSER_RUN_NAME"
RESUMPTION_INDEX = "RESUMPTION_INDEX"
PLATFORM = "MOSAICML_PLATFORM"
PARAMETERS = "PARAMETERS"
WANDB_NAME = "WANDB_NAME"

WORKSPACE = "/workspace"
"""The working directory of the platform's images: that of the run, where a file names it."""

CONFIG = "/mnt/config"
PARAMETERS_FILE = f"{CONFIG}/parameters.yaml"
RUN_CONFIG_FILE = f"{CONFIG}/run_config.yaml"
COMMAND_FILE = f"{CONFIG}/usercommand.bash"

_C, _D = Giver.CONTRACT, Giver.DEFAULT

VARIABLES = (
    Variable("MASTER_ADDR", _C, "address of the node of rank 0"),
    Variable("MASTER_PORT", _C, "a port at MASTER_ADDR kept free for this attempt"),
    Variable("NODE_RANK", _C, "index of the node, from 0"),
    Variable(NUM_NODES, _D, "how many nodes the run has"),
    Variable(WORLD_SIZE, _D, "how many GPUs the run has in all; 0 for a CPU run"),
    Variable(LOCAL_WORLD_SIZE, _D, "how many GPUs the run has on this node; 0 for a CPU run"),
    Variable(RUN_NAME, _D, "name of the run with its end, as `tarmac ls` shows it"),
    Variable(COMPOSER_RUN_NAME, _D, "the same as RUN_NAME"),
    Variable(RESUMPTION_INDEX, _D, "how often the run was resumed: 0 in its first attempt"),
    Variable(PLATFORM, _D, "`true`"),
    Variable(PARAMETERS, _D, f"path of the file of `parameters`: {PARAMETERS_FILE} where that can be"),
    Variable(WANDB_NAME, _D, "the same as RUN_NAME, with the integration wandb"),
)


def markdown() -> str:
    """The table of docs/dialects/mcli.md."""
    rows = [f"| `{item.name}` | {item.giver} | {item.meaning} |" for item in VARIABLES]
    return "\n".join(["| variable | set by | meaning |", "|---|---|---|", *rows]) + "\n"

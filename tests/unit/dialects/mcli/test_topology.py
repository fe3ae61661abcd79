"""What a command of MCLI says of nodes and processes, which the placement decides here."""

from __future__ import annotations

import pytest

from tarmac.dialects.dialect import Extras
from tarmac.systems.registry import read


def test_nothing_is_doubted_where_the_number_of_gpus_comes_from_the_command_line() -> None:
    source = "name: a\nimage: bash\ncompute: {gpus: }\ncommand: composer -n 8 train.py\n"
    reading = read(
        source, filename="a.yaml", directory="/", extras=Extras(override_fields=frozenset({"slots"}))
    )
    assert not [text for text in reading.warnings if "command: " in text]
    assert reading.spec.roles[0].slot_type == "gpu"


def doubts(command: str, compute: str) -> list[str]:
    source = f"name: a\nimage: bash\ncompute: {{{compute}}}\ncommand: {command}\n"
    return [text for text in read(source, filename="a.yaml", directory="/").warnings if "command: " in text]


@pytest.mark.parametrize(
    ("command", "compute", "said"),
    [
        ("torchrun --nproc_per_node 8 train.py", "gpus: 4", "it says 8 where $LOCAL_WORLD_SIZE belongs"),
        ("composer -n 8 train.py", "gpus: 12", "it says 8 where $LOCAL_WORLD_SIZE belongs"),
        ("torchrun --nnodes=2 --nproc_per_node=8 train.py", "gpus: 8", "it starts 2 x 8 = 16 processes"),
        ("torchrun --nnodes 3 train.py", "gpus: 8", "it says 3 where $NUM_NODES belongs"),
        ("composer --world_size 8 train.py", "gpus: 16", "write $WORLD_SIZE"),
        ("composer --nproc 8 train.py", "gpus: 8", "holds where the run gets 8 GPUs of each"),
    ],
)
def test_numbers_that_the_command_cannot_know_are_warned_of(command: str, compute: str, said: str) -> None:
    (doubt,) = doubts(command, compute)
    assert doubt.startswith("line 4: command: ")
    assert said in doubt


@pytest.mark.parametrize(
    ("command", "compute"),
    [
        ("torchrun --nnodes $NUM_NODES --nproc_per_node $LOCAL_WORLD_SIZE train.py", "gpus: 8"),
        ("torchrun --nnodes=2 --nproc_per_node=8 train.py", "gpus: 16"),
        ("torchrun --nproc_per_node=8 train.py", "gpus: 16, nodes: 2"),
        ("composer train.py", "gpus: 8"),
        ("torchrun --nproc_per_node=8 train.py", "gpus: 0"),
    ],
)
def test_what_agrees_or_is_left_open_is_not(command: str, compute: str) -> None:
    assert doubts(command, compute) == []

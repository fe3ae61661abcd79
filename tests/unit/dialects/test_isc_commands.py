"""The command of an ISC launch file: how its lines are joined, and what is doubted."""

from __future__ import annotations

import re
import subprocess

import pytest

from tarmac.dialects.dialect import Extras
from tarmac.systems.isc.commands import command_of, doubts, joined
from tarmac.systems.registry import read


@pytest.mark.parametrize(
    ("text", "one_line"),
    [
        ("a\nb", "a b"),
        ("a &&\nb", "a && b"),
        ("a \\\nb", "a b"),
        ("a\\\nb", "ab"),
        ("a \\ \n b", "a b"),
        ("a\t\n\n\n  b\n", "a b"),
        ("a \\\\ b", "a \\\\ b"),
    ],
)
def test_line_breaks_act_as_blanks(text: str, one_line: str) -> None:
    """I5."""
    assert re.sub(" +", " ", joined(text)) == one_line


def test_the_shell_expands_what_it_is_given() -> None:
    """I5: by the shell of the node, and a command that fails inside the text does not end it."""
    command = command_of("false ;\nA=1\nprintf '%s,'\n\"$X\" b")
    assert command.argv is not None
    done = subprocess.run(command.argv, env={"X": "1 2"}, capture_output=True, text=True, check=True)
    assert done.stdout == "1 2,b,"


@pytest.mark.parametrize(
    ("text", "slots", "told"),
    [
        ("cd / && torchrun --nnodes=10 --nproc_per_node=6 t.py", 16, "10 x 6 = 60 processes"),
        ("cd / && torchrun --nnodes 10 --nproc-per-node 6 t.py", 16, "10 x 6 = 60 processes"),
        ("cd / && torchrun --nnodes=3 --nproc-per-node=$N_PROC t.py", 16, "$NNODES"),
        ("cd / && torchrun --nnodes=$NNODES --nproc-per-node=5 t.py", 16, "$N_PROC"),
        ("cd / && accelerate launch --num_processes=8 t.py", 16, "NNODES * N_PROC"),
        ("cd / &&\n# first\ntorchrun t.py", 1, "'#' in line 2"),
        ("set -e\ncd /x\nls", 1, "line 2 of it ('cd' ...)"),
        ("export A=1\npython /t.py", 1, "line 2 of it ('python' ...)"),
        ("torchrun train.py", 1, "'train.py' is looked for in an empty work directory"),
        ("bash scripts/run.sh", 1, "'scripts/run.sh'"),
    ],
)
def test_what_is_likely_not_meant_is_told(text: str, slots: int, told: str) -> None:
    """I11: numbers that are not those of the run; I5: what joining the lines does to a script."""
    (doubt, *_) = doubts(text, slots)
    assert told in doubt


def test_a_program_beside_the_file_is_no_doubt_where_the_submission_brings_code() -> None:
    source = 'isc_project_id = "p"\nexperiment_name = "x"\ngpus = 2\ncommand = "torchrun train.py"\n'
    for brought, warned in ((frozenset[str](), True), (frozenset({"code"}), False)):
        extras = Extras(override_fields=brought)
        warnings = read(source, filename="x.isc", directory="/", extras=extras).warnings
        assert any("empty work directory" in warning for warning in warnings) is warned


@pytest.mark.parametrize(
    "text",
    [
        "cd / && torchrun --nnodes=$NNODES --nproc-per-node=$N_PROC\n--node_rank=$RANK\ntrain.py --lr 1",
        "cd / && torchrun --nnodes=10 --nproc-per-node=6 t.py",
        "cd / && torchrun --nnodes=1:4 --nproc-per-node=$N_PROC t.py",
        "cd / &&\nexport A=1 &&\npython t.py",
        "cd / ;\npython t.py |\ntee x",
        "A='1 2'\nB=2\npython /t.py",
        "cd / && echo 'a # b' \"# c\" \\# x#y\n&& ls # the end",
        "cd /; for i in 1 2; do\necho $i; done",
    ],
)
def test_what_is_usual_is_not_doubted(text: str) -> None:
    assert list(doubts(text, 60)) == []


def test_a_list_that_calls_a_shell_is_not_warned_of() -> None:
    source = "command: [{}, -c, 'echo $HOME']"
    assert read(source.format("bash"), filename="a.yaml", directory="/").warnings == ()
    assert read(source.format("printenv"), filename="a.yaml", directory="/").warnings

"""ISC launch files through the real program: the document's own example, variables, words, errors."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pages
from shell import Shell

DOCUMENT = (Path(__file__).parents[2] / "golden/dialects/isc/good/document-example.isc").read_text()

TORCHRUN = """#!/bin/bash
printf '%q ' "$@"; echo
"""

PRINTER = """#!/bin/bash
env | grep -E '^(OUTPUT_PATH|CHECKPOINT_ARTIFACT_PATH|CRUD_ARTIFACT_PATH|LOSSY_ARTIFACT_PATH|STRONG_[A-Z_]+\
|IP_TO_RANK_MAPPING|RANK|NODE_RANK|MASTER_ADDR|MASTER_PORT|NNODES|N_PROC)=' | sort | sed "s/^/$NODE_RANK /"
"""

DOCUMENTED = {
    *("OUTPUT_PATH", "CHECKPOINT_ARTIFACT_PATH", "CRUD_ARTIFACT_PATH", "LOSSY_ARTIFACT_PATH"),
    *("STRONG_EXPERIMENT_ID", "STRONG_EXPERIMENT_NAME", "STRONG_COMPUTE_MODE"),
    *("STRONG_CYCLE_COUNT", "STRONG_CYCLE_TIME_MS"),
    *("IP_TO_RANK_MAPPING", "RANK", "MASTER_ADDR", "MASTER_PORT", "NNODES", "N_PROC"),
}
"""Every variable of the source document."""


def test_the_documents_example_runs_as_printed(shell: Shell) -> None:
    """I3-I5, I11, I16, I1: only the placeholder and the home directory are filled in."""
    home = shell.directory / "home"
    shell.write("home/.fashion/bin/activate", f"export PATH={home}/.fashion/bin:$PATH\n")
    shell.write("home/.fashion/bin/torchrun", TORCHRUN)
    (home / ".fashion/bin/torchrun").chmod(0o755)
    shell.write("home/isc-demos/fashion_mnist/train.py", "")
    filled = DOCUMENT.replace("/root", str(home)).replace("<your-project-id>", "prj-hail-250517")
    shell.write("fashion.launch", filled)

    printed = shell.tarmac("run", "fashion.launch", "--rehearse", "12x6", code=0).stdout
    commands = [shlex.split(line.partition("|")[2]) for line in printed.splitlines()]
    options = [dict(re.findall(r"--(\w[\w-]*)=(\S+)", " ".join(command))) for command in commands]
    assert len(commands) == 8, "once on every node (I5)"
    assert {(option["nnodes"], option["nproc-per-node"]) for option in options} == {("8", "6")}
    assert sorted(int(option["node_rank"]) for option in options) == list(range(8))
    assert len({(option["master_addr"], option["master_port"]) for option in options}) == 1
    assert all(
        command[5:11] == shlex.split("train.py --lr 0.001 --batch-size 16 --save-dir") for command in commands
    )

    head, line = shell.tarmac("ls", "--as", "isc", code=0).stdout.splitlines()
    assert head.split() == ["ID", "Name", "Created", "GPUs", "Mode", "Cycle", "Status"]
    assert line.split()[1] == "foo_experiment"
    assert line.split()[-6:] == ["48", "cycle", "1", "/", "3", "completed"]
    (listed,) = shell.json("ls", "--as", "isc")["runs"]
    assert (listed["status"], listed["system"], listed["project"]) == ("completed", "isc", "prj-hail-250517")
    page = shell.tarmac("show", "--as", "isc", "foo_experiment", code=0).stdout
    assert re.search(r"^Status +completed$", page, re.MULTILINE)
    assert shell.json("show", "--as", "isc", "foo_experiment")["run"]["status"] == "completed"
    filters = ("ls", "--as", "isc", "--mode", "cycle", "--state", "Completed")
    assert len(shell.tarmac(*filters, code=0).stdout.splitlines()) == 2
    assert "foo_experiment" not in shell.tarmac(*filters[:-1], "cancelled", code=0).stdout
    assert "did you mean cancelled?" in shell.tarmac(*filters[:-1], "cancled", code=2).stderr
    assert not shell.tarmac("ls", "--mode", "batch", "--json", code=0).stdout.count("foo_experiment")
    (project,) = shell.json("projects")["projects"]
    assert (project["id"], project["runs"], project["live"]) == ("prj-hail-250517", 1, 0)
    assert "prj-hail-250517" in shell.tarmac("projects", code=0).stdout, "I4: the ids of projects"
    wrong = shell.tarmac("ls", "--as", "icc", code=2)
    assert "did you mean isc?" in wrong.stderr


def test_every_documented_variable_on_two_nodes(shell: Shell) -> None:
    """I14-I16, must-show 2."""
    printer = shell.directory / shell.write("print.sh", PRINTER)
    shell.write(
        "vars.isc",
        'isc_project_id = "p"\nexperiment_name = "two nodes!"\ngpus = 2\ncompute_mode = "interruptible"\n'
        f'command = "bash {printer}"\n',
    )
    out = shell.tarmac("run", "vars.isc", "--rehearse", "2x1", "-e", "RANK=7", code=0).stdout
    nodes: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for line in out.splitlines():
        rank, _, pair = line.partition("| ")[2].partition(" ")
        name, _, value = pair.partition("=")
        nodes[int(rank)][name] = value
    first, second = nodes
    for node in nodes:
        assert DOCUMENTED | {"NODE_RANK"} == node.keys()
        assert pages.variables("dialects/isc.md").keys() <= node.keys()
        assert node["OUTPUT_PATH"] == node["CHECKPOINT_ARTIFACT_PATH"]
        assert node["STRONG_EXPERIMENT_NAME"] == "two nodes!"
        assert (node["STRONG_COMPUTE_MODE"], node["STRONG_CYCLE_COUNT"]) == ("interruptible", "1")
        assert node["STRONG_CYCLE_TIME_MS"].isdigit()
        assert (node["NNODES"], node["N_PROC"]) == ("2", "1")
    ranks = json.loads(first["IP_TO_RANK_MAPPING"])
    assert ranks == {"127.0.0.1": 0, "127.0.0.2": 1} or sorted(ranks.values()) == [0, 1]
    assert " " not in first["IP_TO_RANK_MAPPING"]
    assert first["IP_TO_RANK_MAPPING"] == second["IP_TO_RANK_MAPPING"]
    assert ranks[first["MASTER_ADDR"]] == 0
    assert [(node["RANK"], node["NODE_RANK"]) for node in nodes] == [("0", "0"), ("1", "1")]
    run = shell.json("show", "@last")["run"]
    assert first["STRONG_EXPERIMENT_ID"] == second["STRONG_EXPERIMENT_ID"] == run["id"]


def test_what_is_wrong_in_a_launch_file_is_told_before_anything_runs(shell: Shell) -> None:
    """I3, I4, I6: located, all at once, no secret on the screen; too many GPUs with what would fit."""
    shell.write(
        "bad.isc",
        'experiment_name = "e"\ngpus = 4\napi_key = "s3cr3t-value"\n'
        'compute_mode = "fast"\ncommand = "true"\n',
    )
    for ask in (("check", "bad.isc"), ("run", "bad.isc")):
        refused = shell.tarmac(*ask, code=2)
        said = refused.stdout + refused.stderr
        assert "bad.isc:3:1" in said
        assert "bad.isc:4:16" in said
        assert "cycle, interruptible, burst" in said
        assert "isc_project_id" in said
        assert "s3cr3t-value" not in said
    shell.write("big.isc", 'isc_project_id = "p"\nexperiment_name = "e"\ngpus = 73\ncommand = "cd /; true"\n')
    never = shell.tarmac("run", "big.isc", "--rehearse", "12x6", code=2).stderr
    assert "can never start here" in never
    assert "72" in never
    (shell.directory / "model.isc").write_bytes(b"PK\x03\x04\x14\x00\x80\x02ccollections")
    assert "archive or a checkpoint" in shell.tarmac("check", "model.isc", code=2).stderr
    (shell.directory / "half.isc").write_bytes(b"weights\0\0\0\1")
    assert "binary data" in shell.tarmac("check", "half.isc", code=2).stderr
    shell.write("near.isc", 'isc_project_id = "p"\nexperiment_name = "e"\ngpus = 1\ncommand = "sh near.sh"\n')
    shell.write("code/near.sh", "echo near\n")
    for options, doubted in (((), True), (("--code", "code"), False)):
        ask = ("run", "near.isc", "--rehearse", "1x1", "--dry-run", *options)
        assert ("an empty work directory" in shell.tarmac(*ask, code=0).stderr) is doubted

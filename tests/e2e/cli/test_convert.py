"""`tarmac convert`, and the options of `run` that users of other systems know."""

from __future__ import annotations

from shell import Shell


def test_a_converted_file_is_checked_and_runs(settled: Shell) -> None:
    """M1: what is printed runs the same; nothing is written over."""
    settled.write(
        "given.yaml",
        "slots: 2\nenv: {LR: '0.10'}\nparameters: {lr: 0.1}\n"
        "command: |\n  echo $LR\n  cat $TARMAC_PARAMETERS\n",
    )
    settled.tarmac("convert", "given.yaml", "-o", "native.yaml", code=0)
    assert "exists already" in settled.tarmac("convert", "given.yaml", "-o", "native.yaml", code=2).stderr
    assert settled.tarmac("check", "native.yaml", code=0).stdout == "native.yaml: ok, a run file of given\n"
    said = settled.tarmac("run", "native.yaml", code=0).stdout
    assert "0.10\n" in said
    assert '"lr": 0.1' in said
    record = settled.json("convert", "native.yaml")
    assert (record["dialect"], record["native"].splitlines()[0]) == ("native", "name: given")


def test_slots_by_the_names_of_other_systems(settled: Shell) -> None:
    """M1, M10: --gpus, --gpu-type, --image, --priority high; of a file and of a clone."""
    settled.write("few.yaml", "slots: 1\ncommand: echo $NNODES x $N_PROC\n")
    changed = ("--gpus", "2", "--gpu-type", "cpu", "--image", "ubuntu:24.04", "--priority", "high")
    settled.tarmac("run", "few.yaml", *changed, code=0)
    run = settled.json("show", "@last")["run"]
    assert (run["slots"], run["priority"]) == (2, 1)
    assert run["spec"]["environment"]["image"] == "ubuntu:24.04"
    assert "1 x 4" in settled.tarmac("run", "--clone", "few", "--gpus", "4", code=0).stdout
    assert settled.tarmac("run", "few.yaml", "--gpus", "2", "--slots", "2", code=2).stdout == ""


def test_an_unknown_dialect_is_refused_with_the_nearest(settled: Shell) -> None:
    """I3: a dialect can be forced; none is guessed from a wrong name."""
    settled.write("a.yaml", "command: echo\n")
    for command in ("run", "check", "convert"):
        assert (
            "did you mean 'native'?" in settled.tarmac(command, "a.yaml", "--dialect", "natve", code=2).stderr
        )


def test_slots_over_a_number_of_nodes(settled: Shell) -> None:
    """M1: `nodes` splits slots over more nodes than would be needed."""
    settled.write("two.yaml", "slots: 4\nrehearse: 3x4\ncommand: echo $NODE_RANK of $NNODES x $N_PROC\n")
    assert "0 of 1 x 4" in settled.tarmac("run", "two.yaml", code=0).stdout
    said = settled.tarmac("run", "two.yaml", "--nodes", "2", code=0).stdout
    assert sorted(line.split("| ")[1] for line in said.splitlines()) == ["0 of 2 x 2", "1 of 2 x 2"]
    refused = settled.tarmac("run", "two.yaml", "--nodes", "4", code=2).stderr
    assert "3" in refused

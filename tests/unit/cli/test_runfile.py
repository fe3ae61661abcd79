"""The text that is submitted: from files, and from a bare command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.cli.runfile import from_command, name_of, read_run_file
from tarmac.model.errors import InvalidInput
from tarmac.systems.registry import read

HOME = "/home/ada"


def test_a_file_is_read_with_the_directory_it_lies_in(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("\ufeffname: ü\n", encoding="utf-8")
    source = read_run_file(str(file))
    assert (source.text, source.filename, source.directory) == ("name: ü\n", str(file), str(tmp_path))


def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: a\n")
    (tmp_path / "binary.yaml").write_bytes(b"name: a\n\xff\xfe")
    (tmp_path / "train.py").write_text("print()\n")
    for name, message, hint in [
        (str(tmp_path / "train.py"), "is a program, not", f"tarmac run -- python {tmp_path / 'train.py'}"),
        (str(tmp_path), "is a directory, not a run file", f"did you mean {tmp_path / 'run.yaml'}?"),
        (str(tmp_path / "rum.yaml"), "no such file or directory", f"did you mean {tmp_path / 'run.yaml'}?"),
        (str(tmp_path / "binary.yaml"), "binary.yaml:2: this is not UTF-8 text (byte 0xff)", None),
    ]:
        with pytest.raises(InvalidInput) as caught:
            read_run_file(name)
        assert message in str(caught.value)
        assert caught.value.hint == hint


def test_a_script_for_a_batch_system_is_read_as_one_whatever_its_name(tmp_path: Path) -> None:
    script = tmp_path / "submit.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    source = read_run_file(str(script))
    with pytest.raises(InvalidInput, match="this is a batch script of Slurm"):
        read(source.text, filename=source.filename, directory=source.directory)


def test_a_command_becomes_a_run_file_that_reads_back_as_it_was(tmp_path: Path) -> None:
    argv = ("python", "train.py", "--note", 'a "b" $C: #d\n€')
    source = from_command(argv, directory=str(tmp_path), home=HOME)
    spec = read(source.text, filename=source.filename, directory=source.directory).spec
    assert spec.name == "train"
    assert spec.roles[0].processes[0].command.argv == argv
    assert spec.code is not None
    assert spec.code.path == str(tmp_path)


def test_nobody_means_the_whole_home_directory(tmp_path: Path) -> None:
    assert "code" not in from_command(("ls",), directory=HOME, home=HOME).text
    assert "code" not in from_command(("ls",), directory="/", home=HOME).text
    assert "code" in from_command(("ls",), directory=str(tmp_path), home=HOME).text


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("python3.11", "-u", "src/train_net.py"), "train-net"),
        (("torchrun", "--nproc-per-node=2", "fit.py"), "fit"),
        (("/usr/bin/nvidia-smi",), "nvidia-smi"),
        (("python", "-m", "http.server"), "python"),
        (("bash", "-c", "echo hi"), "bash"),
        (("/opt/Ünïcode!",), "n-code"),
        (("---",), "run"),
        (("",), "run"),
    ],
)
def test_names_of_commands(argv: tuple[str, ...], name: str) -> None:
    assert name_of(argv) == name


def test_a_file_that_never_ends_is_given_up() -> None:
    with pytest.raises(InvalidInput, match="/dev/zero is too large to be a run file"):
        read_run_file("/dev/zero")
    with pytest.raises(InvalidInput, match="the name of a run file is empty"):
        read_run_file("")

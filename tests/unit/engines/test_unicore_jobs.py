"""What a UNICORE is sent for a job, and what its words for one mean: pure functions of the engine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine_harness import make_launch
from tarmac.engines.sites import login_hooks
from tarmac.engines.slurm.settings import PoolSettings
from tarmac.engines.unicore import description
from tarmac.engines.unicore.jobs import offers
from tarmac.engines.unicore.settings import check_credentials, read_settings
from tarmac.model.errors import InvalidInput

SETTINGS = {"url": "https://uc.example.org/SITE", "directory": "/work/tarmac", "partition": "gpu"}
SCRIPT = """#!/bin/bash
#SBATCH --job-name=tarmac-r1.1
#SBATCH --partition=gpu
#SBATCH --account=ab12
#SBATCH --nodes=2
#SBATCH --gpus-per-node=a100:4
#SBATCH --time=90
#SBATCH --output=/work/slurm.log

set -u
{end}
"""


@pytest.mark.parametrize("end", ["exit 7", "exec bash -c 'exit 7'", "bash -c 'exit 7'", "false; exit 7"])
def test_the_line_that_unicore_appends_runs_with_the_code_of_the_script(tmp_path: Path, end: str) -> None:
    """However the script ends: otherwise the site would take the job for running, minutes longer."""
    path = tmp_path / "job.sh"
    appended = f'{description.RAW["Executable"]} {" ".join(description.RAW["Arguments"])}; echo "code $?"'
    path.write_text(description.raw_script(SCRIPT.format(end=end), "a-job") + "\n" + appended + "\n")
    done = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "code 7\n"
    path.write_text(description.raw_script(SCRIPT.format(end=end), "a-job"))
    assert subprocess.run(["bash", str(path)], check=False).returncode == 7, "also where nothing is appended"


def test_the_directives_stay_at_the_beginning_of_the_script() -> None:
    text = description.raw_script(SCRIPT.format(end="true"), "a-job")
    assert text.splitlines()[:8] == SCRIPT.splitlines()[:8]


def test_resources_have_the_words_of_unicore() -> None:
    assert description.described(SCRIPT.format(end="true")) == {
        "Executable": "/bin/bash",
        "Arguments": ["tarmac.sh"],
        "Project": "ab12",
        "Resources": {"Queue": "gpu", "Nodes": "2", "GPUsPerNode": "4", "Runtime": "90m"},
    }


@pytest.mark.parametrize("value", ["$(touch hacked)", "it's", 'a "quote" `x`', "line\nline"])
def test_login_scripts_keep_every_value_as_it_is(tmp_path: Path, value: str) -> None:
    launch = make_launch(("true",))._replace(
        hooks={"before_login": (("printf", "%s|", value), ("bash", "-c", 'printf %s "$VALUE"'))},
        setup_env={"VALUE": value, "PATH": "/nowhere"},
    )
    scripts = login_hooks.login_scripts(launch, tmp_path)
    subprocess.run(["bash", "-c", scripts["before_login"]], check=True, cwd=tmp_path)
    assert f"{value}|" in (tmp_path / login_hooks.OUTPUT).read_text()
    assert (tmp_path / login_hooks.OUTPUT).read_text().endswith(value)
    assert not (tmp_path / "hacked").exists()


def test_a_failed_login_command_keeps_the_next_from_running(tmp_path: Path) -> None:
    launch = make_launch(("true",))._replace(
        hooks={"before_login": (("bash", "-c", "exit 4"), ("touch", "next"))}
    )
    script = login_hooks.login_scripts(launch, tmp_path)["before_login"]
    assert subprocess.run(["bash", "-c", script], check=False, cwd=tmp_path).returncode == 4
    assert not (tmp_path / "next").exists()


def test_an_offer_comes_from_the_ranges_of_a_partition() -> None:
    pool = PoolSettings(name="train", terms={"partition": "gpu"}, gpu_type="a100")
    resources = {
        "gpu": {"Nodes": "1-3", "CPUsPerNode": "1-48", "GPUS": "0-4", "Runtime": "60-86400.0", "Queue": "*"}
    }
    found = offers(pool, resources, cluster="juwels")
    assert [node.capacity.slots for node in found.nodes] == [4, 4, 4]
    assert {node.capacity.slot_type for node in found.nodes} == {"a100"}
    assert (found.limits.longest_s, found.limits.most_nodes) == (86400.0, 3)
    assert offers(pool, {}, cluster="juwels").nodes == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": "http://uc.example.org/SITE"}, "https alone"),
        ({"url": "uc.example.org"}, "'url'"),
        ({"directory": "tarmac"}, "'directory'"),
        ({"ca": "site.pem"}, "'ca'"),
        ({"gruop": "ab12"}, "group"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_settings({**SETTINGS, **changes})
    assert words in str(refused.value)


def test_the_address_is_completed_and_credentials_are_those_of_a_user() -> None:
    settings = read_settings(SETTINGS)
    assert settings.site.url == "https://uc.example.org/SITE/rest/core"
    check_credentials(settings, {"user": "a", "password": "b"})
    check_credentials(settings, {"token": "a"})
    check_credentials(read_settings({**SETTINGS, "user": "ada"}), {"password": "b"})
    for wrong in ({}, {"password": "b"}, {"token": "a", "password": "b"}):
        with pytest.raises(InvalidInput, match="credentials"):
            check_credentials(settings, wrong)

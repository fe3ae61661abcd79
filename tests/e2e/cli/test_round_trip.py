"""A converted file gives its workers what the file it came from gave them, in each of the five dialects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from shell import Shell

TELL = """\
import json, os, pathlib
found = {}
for place in ("/mnt/config", "/run/determined/info", os.environ.get("TARMAC_PARAMETERS", "/none")):
    place = pathlib.Path(place)
    for path in sorted(place.iterdir()) if place.is_dir() else [place] if place.exists() else []:
        found[str(path)] = path.read_text()
print(json.dumps([dict(os.environ), found]))
"""

MCLI = """\
name: every-part
compute: {gpus: 4}
scheduling: {priority: high, max_retries: 2}
integrations:
- {integration_type: wandb, project: digits, entity: ada, tags: [a, b]}
- {integration_type: mlflow, experiment_name: e, tracking_uri: databricks}
- {integration_type: comet_ml, project: digits, workspace: ada}
env_variables: {MINE: 'a  "b" $(id)', WORLD_SIZE: '77'}
parameters: {lr: 1e-3, model: {name: mpt}, text: 'on'}
metadata: {team: vision}
command: |
  python3 tell.py
"""
ISC = """\
isc_project_id = "prj-one"
experiment_name = "every part"
gpus = 4
max_rapid_cycles = 1
command = '''python3
tell.py'''
"""
DETERMINED = """\
name: every part
entrypoint: python3 tell.py
hyperparameters: {learning_rate: 1e-3, layers: {type: int, minval: 1, maxval: 8}}
searcher: {name: single, metric: loss}
resources: {slots_per_trial: 4, priority: 7}
environment: {environment_variables: {cpu: [MINE=c p u], cuda: ['MINE=a  "b" $(id)']}}
bind_mounts: [{host_path: /usr/share, container_path: shared, read_only: true}]
reproducibility: {experiment_seed: 7}
max_restarts: 1
labels: [one]
"""
MANTIK = """\
UnicoreApiUrl: https://example.org/SITE/rest/core
Environment:
  Variables: {MINE: 'a  "b" $(id)'}
  PreRunCommandOnComputeNode: export BEFORE=seen
Resources: {Queue: batch, Runtime: 90m, Nodes: 2, CPUsPerNode: 4, GPUsPerNode: 2}
"""
MLPROJECT = """\
name: p
entry_points:
  main:
    parameters: {a: {type: float, default: 0.5}}
    command: python3 tell.py --a {a}
"""
CLUSTERFUDGE = """\
import os
import clusterfudge as cf
os.chdir(os.path.dirname(os.path.abspath(__file__)))
told = lambda h: cf.Process(command=["python3", "tell.py"], resource_requirements=cf.Resources(h100=h))
cf.Client().create_launch(cf.CreateLaunchRequest(
    name="every part", deployment=cf.LocalDir(),
    jobs=[cf.Job(short_name="the trainer", replicas=2, processes=[told(1), told(1)]),
          cf.Job(short_name="watcher", replicas=1, processes=[told(0)])]))
"""
FILES = {
    "mcli": ("given.yaml", MCLI),
    "isc": ("given.isc", ISC),
    "determined": ("given.yaml", DETERMINED),
    "mantik": ("given.yaml", MANTIK),
    "clusterfudge": ("given.py", CLUSTERFUDGE),
}
WORKERS = {"mcli": 2, "isc": 2, "determined": 2, "mantik": 1, "clusterfudge": 5}

# Of these the value belongs to the run, not to its file; that they are set at all is compared.
OF_THE_RUN = re.compile(r"_PORT(_\d)?$|^(TARMAC_ATTEMPT_TOKEN|TARMAC_LEAVE_AT|DET_(EXPERIMENT|TRIAL)_ID)$")


@pytest.mark.heavy
@pytest.mark.parametrize("system", sorted(FILES))
def test_a_converted_file_runs_with_the_same_variables_and_files(settled: Shell, system: str) -> None:
    """I14-I16, C9, M8, D11, K5: every variable and file of every worker, and the record, but for ids."""
    beside = {"tell.py": TELL, "MLproject": MLPROJECT, "requirements.txt": ""}
    for name, text in {**beside, FILES[system][0]: FILES[system][1]}.items():
        settled.write(f"{system}/{name}", text)
    given, native = f"{system}/{FILES[system][0]}", f"{system}/native.yaml"
    code = ("--code", system) if system in ("mcli", "isc") else ()
    if system == "clusterfudge":
        said = settled.tarmac("launch", "--rehearse", "2x4", "--follow", given, code=0).stdout
        settled.write(native, settled.tarmac("launch", "--dry-run", given, code=0).stdout)
    else:
        said = settled.tarmac("run", given, "--rehearse", "2x2", *code, code=0).stdout
        settled.tarmac("convert", given, "-o", native, code=0)
    before = _told(said), settled.json("show", "@last")["run"]
    shape = "2x4" if system == "clusterfudge" else "2x2"
    said = settled.tarmac("run", native, "--rehearse", shape, *code, code=0).stdout
    after = _told(said), settled.json("show", "@last")["run"]
    assert len(before[0]) == len(after[0]) == WORKERS[system]
    first, second = (
        {worker: _plain(told, run) for worker, told in found.items()} for found, run in (before, after)
    )
    for worker, (variables, files) in first.items():
        assert second[worker][0] == variables, worker
        assert second[worker][1] == files, worker
    assert after[1]["spec"]["conventions"] == before[1]["spec"]["conventions"]


def _told(said: str) -> dict[str, Any]:
    """What each worker told, by its prefix."""
    lines = (line.partition("{") for line in said.splitlines() if '"TARMAC_RUN_ID"' in line)
    return {before: json.loads(f"[{{{rest}" if before.endswith("[") else rest) for before, _, rest in lines}


def _plain(told: list[Mapping[str, str]], run: Mapping[str, Any]) -> list[dict[str, str]]:
    """The same without what no two runs share: ids, the end of a unique name, ports, addresses."""
    variables, files = told
    numbers = [variables[name] for name in ("DET_EXPERIMENT_ID", "DET_TRIAL_ID") if name in variables]

    def plain(text: str) -> str:
        for mine, all_have in ((run["id"], "ID"), (run["name"], "NAME"), *((n, "NUMBER") for n in numbers)):
            text = text.replace(mine, all_have)
        text = re.sub(r"\b127(\.\d+){3}\b", "ADDRESS", text)
        text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text)
        return re.sub(r"/attempts/\d+/", "/attempts/N/", text)

    return [
        {name: "" if OF_THE_RUN.search(name) else plain(value) for name, value in variables.items()},
        {name: plain(text) for name, text in files.items()},
    ]

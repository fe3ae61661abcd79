"""Files that are no run files: refused in a sentence that says what they are."""

from __future__ import annotations

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.systems.registry import choose

STRANGERS = {
    "a batch script of Slurm": "#!/bin/bash\n#SBATCH --nodes=2\n\nsrun python train.py\n",
    "a batch script of PBS": "#PBS -l nodes=1\npython train.py\n",
    "a batch script of LSF": "#BSUB -n 4\npython train.py\n",
    "a batch script of Grid Engine": "#!/bin/bash\n#$ -cwd\npython train.py\n",
    "a shell script": "#!/usr/bin/env bash\nset -e\ntorchrun train.py\n",
    "a Python program": "import torch\n\nprint(torch)\n",
    "the description of a package": '[project]\nname = "digits"\nversion = "1"\n',
    "a Dockerfile": "# base\nFROM python:3.12\nRUN pip install torch\n",
    "a .torchxconfig": "[cli:run]\ncomponent = dist.ddp\nscheduler = slurm\n",
    "a PyTorchJob of Kubernetes": "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n",
    "a RayJob of Kubernetes": "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: a}\nspec: {}\n",
    "an object of Kubernetes": "apiVersion: v1\nkind: {{ .Values.kind }}\nmetadata: {name: a}\n",
    "a Job of Kubernetes": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\nspec: {}\n",
    "a file of Docker Compose": "services:\n  train: {image: bash, command: echo}\n",
    "a workflow of GitHub": "name: CI\non: [push]\njobs: {build: {runs-on: linux}}\n",
    "a pipeline of GitLab": "stages: [build]\nbuild: {stage: build, script: [make]}\n",
    "a task of SkyPilot": "name: train\nresources: {accelerators: 'A100:8'}\nrun: python train.py\n",
    "a task of dstack": "type: task\nname: train\ncommands: [python train.py]\nresources: {gpu: 24GB}\n",
    "a job of Azure ML": "$schema: https://example.org/commandJob.schema.json\ncommand: python train.py\n",
    "a cluster of Ray": "cluster_name: minimal\nmax_workers: 1\nprovider: {type: aws}\n",
    "a sweep of Weights & Biases": "program: train.py\nmethod: bayes\nparameters: {lr: {min: 0.1}}\n",
    "a configuration of accelerate": "compute_environment: LOCAL\ndistributed_type: MULTI_GPU\n",
    "a request to MosaicML's fine-tuning service": "model: a/b\ntrain_data_path: s3://a\nlearning_rate: 1\n",
    "an MCLI sweep, as a script of its authors reads it": "base_config: {image: a}\nsweep_config: {a: []}\n",
    "a file of parameters for a training script": "model: {n: 1}\nmax_duration: 1ep\noptimizer: {lr: 1}\n",
    "a configuration of Hydra": "defaults: [_self_, {model: gpt}]\nname: base\nseed: 1\n",
    "an environment of conda": "name: env\nchannels: [conda-forge]\ndependencies: [python=3.12]\n",
    "the MLproject file of an MLflow project alone": "name: x\nentry_points: {main: {command: t}}\n",
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_well_known_file_is_called_by_its_kind(kind: str) -> None:
    """I8: one problem, with a hint, in place of what every dialect missed."""
    with pytest.raises(InvalidInput) as caught:
        choose(STRANGERS[kind], filename="given")
    (problem,) = caught.value.problems
    assert problem.message == f"this is {kind}, which tarmac does not read"
    assert problem.file == "given"
    assert problem.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hydra: {run: {dir: out}}\nname: a\n", "a configuration of Hydra"),
        ("defaults: [_self_]\nmodel: {name: x}\ntrainer: {}\n", "a configuration of Hydra"),
        ("name: resnet\nnet: {_target_: torch.nn.Linear, in_features: 1}\n", "a configuration of Hydra"),
        ("name: vit\nlr: 0.1\nbatch_size: 8\n", "a file of parameters for a training script"),
        ("project: x\ntrainer: {gpus: 8}\ndata: {path: /d}\n", "a file of parameters for a training script"),
    ],
)
def test_a_configuration_of_a_script_is_called_that(text: str, kind: str) -> None:
    """I8: in place of the fields that a run file would not know."""
    with pytest.raises(InvalidInput, match=f"this is {kind}, which tarmac does not read"):
        choose(text, filename="config.yaml")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Service", "apiVersion: v1\nkind: Service\n---\napiVersion: apps/v1\nkind: Deployment\n"),
        ("RayJob", "apiVersion: ray.io/v1\nkind: RayJob\nmetadata:\n  name: {{ .Release.Name }}\n"),
    ],
    ids=["several documents", "a template"],
)
def test_an_object_of_kubernetes_is_known_where_it_is_not_one_document_of_yaml(kind: str, text: str) -> None:
    """I8."""
    with pytest.raises(InvalidInput, match=f"this is a {kind} of Kubernetes"):
        choose(text, filename="job.yaml")


def test_a_chain_of_tasks_is_known_by_any_of_its_documents() -> None:
    """I8: SkyPilot's chains begin with a document that only names them."""
    with pytest.raises(InvalidInput, match="this is a task of SkyPilot"):
        choose("name: chain\n---\nresources: {cpus: 2}\nrun: echo\n", filename="chain.yaml")


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("command: |\n  #SBATCH is a word here\n  import x\n", "native"),
        ("name: x\nroles: {a: {command: t}}\n", "native"),
        ("comand: python train.py\n", "native"),
        ("run: python train.py\n", "native"),
        ("name: x\nimage: bash\ncommand: |\n  #SBATCH --nodes=2\n", "mcli"),
        ('experiment_name = "x"\ncommand = "import torch"\n', "isc"),
        ("name: x\nentrypoint: t\nsearcher: {name: single}\nenvironment: {}\n", "determined"),
        ('{"UnicoreApiUrl": "https://x.org", "Resources": {"Queue": "a"}}', "mantik"),
    ],
)
def test_a_run_file_is_nobody_else(text: str, dialect: str) -> None:
    """I8: what a dialect is certain of is never called unsupported, and a mistake in a field is no reason."""
    assert choose(text, filename="given").name == dialect


@pytest.mark.parametrize(
    "text",
    [
        '{"compilerOptions": {"strict": true}}',
        '{"architectures": ["Llama"], "hidden_size": 4096, "name": "x"}',
        "just: words\n",
    ],
)
def test_fields_that_happen_to_resemble_ours_make_no_run_file(text: str) -> None:
    """I8: such files were refused field by field, as if somebody had meant a run file."""
    with pytest.raises(InvalidInput, match="this is no run file of any kind that tarmac reads"):
        choose(text, filename="settings.json")


@pytest.mark.parametrize(
    ("text", "message"), [(" \n", "the file is empty"), ("# a\n\n# b\n", "there is nothing but comments")]
)
def test_an_empty_file_is_called_empty(text: str, message: str) -> None:
    """I8."""
    with pytest.raises(InvalidInput, match=message):
        choose(text, filename="given")

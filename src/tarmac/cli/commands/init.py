"""`tarmac init`: write a run file and a training script for each framework. Needs no server.

The files are copies of those below `cli/templates`, with the name of the run inserted.
"""

from pathlib import Path

import click

from tarmac.cli.dialogue import answer
from tarmac.cli.lazy import command
from tarmac.cli.options import flag
from tarmac.dialects.names import fit
from tarmac.model.errors import InvalidInput, Problem

FRAMEWORKS = ("plain", "torchrun", "huggingface", "lightning", "jax")

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"

_FILES = {"run.yaml": "run.yaml", "train.py": "train.py.txt"}
"""Each file with its template; `.txt`, so that no tool treats a template as a module of ours."""

_NEXT_STEPS = """\
try it:     tarmac run {file}
look first: tarmac check {file}; tarmac run {file} --dry-run
then pause: tarmac pause @last --wait; tarmac resume @last"""


@command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path())
@click.option(
    "--framework",
    type=click.Choice(FRAMEWORKS),
    default="plain",
    show_default=True,
    help="What trains: torchrun is PyTorch on several GPUs.",
)
@flag("--force", help="Overwrite files that exist.")
def init(*, directory: str, framework: str, force: bool) -> None:
    """Write a run file and a training script to begin with into DIR, by default right here.

    The script runs as it is, saves checkpoints and may be paused at any step; comments say what to replace.
    """
    place = Path(directory)
    name = fit(place.resolve().name) or "train"
    texts = {target: _template(framework, source, name) for target, source in _FILES.items()}
    _write(place, texts, force=force)
    files = [str(place / target) for target in texts]
    text = "\n".join([*(f"wrote {file}" for file in files), _NEXT_STEPS.format(file=place / "run.yaml")])
    document = {"directory": directory, "framework": framework, "name": name, "files": files}
    answer(document, text)


def _template(framework: str, source: str, name: str) -> str:
    text = (TEMPLATES / framework / source).read_text(encoding="utf-8")
    # Quoted if YAML would not read a text: a directory may be named 2026.
    plain = name if name[0].isalpha() and name.lower() != "null" else f'"{name}"'
    return text.replace("\nname: NAME\n", f"\nname: {plain}\n")


def _write(place: Path, texts: dict[str, str], *, force: bool) -> None:
    """Write all files; raises InvalidInput, without writing any, that names every existing one."""
    existing = [place / target for target in texts if (place / target).exists()]
    if existing and not force:
        raise InvalidInput(
            [Problem(message=f"{path} exists already") for path in existing],
            hint="name another directory, or overwrite with --force",
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        for target, text in texts.items():
            with (place / target).open("w" if force else "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        where = error.filename or place
        raise InvalidInput(f"{where} cannot be written: {(error.strerror or str(error)).lower()}") from None

"""The command line of `apptainer run`, except options without a meaning here. Pure; called by `__main__`."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.kernel.mountplan import Bind

_BIND, _ENV = ("-B", "--bind"), ("--env",)
_DIRECTORY, _CLEAN, _DEVICES = ("--pwd", "--cwd"), ("-e", "--cleanenv"), ("--nv", "--rocm")
_OTHERS = (
    "-H --home -W --workdir -S --scratch -o --overlay --mount --app --env-file --fusemount --dns --hostname "
    "--security --network --network-args --apply-cgroups --add-caps --drop-caps --cpus --memory --pem-path "
    "--cpu-shares --cpuset-cpus --cpuset-mems --blkio-weight --pids-limit --memory-swap"
)
_WITH_VALUE = frozenset({*_BIND, *_ENV, *_DIRECTORY, *_OTHERS.split()})


class RunRequest(NamedTuple):
    """The image, and the command with its arguments. `ignored` options have no effect."""

    image: str
    command: tuple[str, ...]
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = {}
    directory: Optional[str] = None
    clean: bool = False
    devices: bool = False
    ignored: tuple[str, ...] = ()


def parse(words: Sequence[str]) -> RunRequest:
    """The request in `OPTIONS IMAGE COMMAND...`. Raises ValueError if there is no image."""
    left, binds, ignored = list(words), list[Bind](), list[str]()
    env: dict[str, str] = {}
    found = RunRequest("", ())
    while left and left[0].startswith("-"):
        option, equals, value = left.pop(0).partition("=")
        if option in _WITH_VALUE and not equals:
            if not left:
                raise ValueError(f"the option {option} has no value")
            value = left.pop(0)
        if option in _BIND:
            binds += map(_bind, filter(None, value.split(",")))
        elif option in _ENV:
            env.update(dict(pair.split("=", 1) for pair in value.split(",") if "=" in pair))
        elif option in _DIRECTORY:
            found = found._replace(directory=value)
        elif option in _CLEAN:
            found = found._replace(clean=True)
        elif option in _DEVICES:
            found = found._replace(devices=True)
        else:
            ignored.append(option)
    if not left:
        raise ValueError("there is no image among its words")
    return found._replace(
        image=left[0], command=tuple(left[1:]), binds=tuple(binds), env=env, ignored=tuple(ignored)
    )


def _bind(text: str) -> Bind:
    """Parse `SOURCE[:TARGET[:OPTIONS]]`."""
    source, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    return Bind(source, target or source, read_only="ro" in options.split(","))

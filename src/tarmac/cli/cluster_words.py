"""Clusters and rules of pools as words of a command. Used by `clusters`."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from tarmac.cli.dialogue import remark
from tarmac.client import Client
from tarmac.client.launching import json_text
from tarmac.model.secret import LEAST_BYTES

NO_SECRETS: Mapping[str, str] = {}


def login_of_shell(client: Client, cluster: str, engine: str) -> tuple[dict[str, str], dict[str, str]]:
    """Settings and the names of secrets, by use, with the credentials that the shell has for this engine.

    The values become secrets of the user, except names that are too short for that.
    """
    from tarmac.systems.registry import credential_variables

    settings: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for use, variable in credential_variables(engine, os.environ).items():
        value, name = os.environ[variable], f"{cluster}-{use}".replace("_", "-")
        if use == "user" and len(value.encode()) < LEAST_BYTES:
            settings[use] = value
            continue
        client.set_secret(name, value)
        secrets[use] = name
        remark(f"{variable} of your shell is now your secret {name}")
    return settings, secrets


def cluster_text(
    name: str, engine: str, settings: Iterable[tuple[str, str]], credentials: Mapping[str, str] = NO_SECRETS
) -> str:
    """The text of a cluster file with these settings."""
    secrets = {"credentials": credentials} if credentials else {}
    return json_text(
        {"name": name, "engine": engine, "settings": nested(settings, "--set", _word), **secrets}
    )


def nested(pairs: Iterable[tuple[str, str]], what: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """The values by name; a dot selects a nested mapping; empty means null."""
    tree: dict[str, Any] = {}
    for key, value in pairs:
        *path, last = key.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise click.UsageError(f"{what} {key}: {part!r} has a value already")
        place[last] = read(value)
    return tree


def _word(text: str) -> Any:
    return _VALUES.get(text, text)


def rule_value(text: str) -> Any:
    """The value of a rule: a number, true, false, nothing or the text."""
    return float(text) if re.fullmatch(r"\d+(\.\d*)?", text, re.ASCII) else _word(text)


_VALUES = {"": None, "null": None, "true": True, "false": False}
"""Texts with another value; null removes a directive."""

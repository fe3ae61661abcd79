"""The token of a Ray: a secret of the server, which no run gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.ray.kind import RayKind
from tarmac.engines.ray.settings import read_settings
from tarmac.model.secret import SERVER, SecretName


def test_the_credential_of_a_cluster_is_a_secret_of_the_server(tmp_path: Path) -> None:
    """N15."""
    settings = read_settings({"address": "10.0.0.1:6379"})

    def secrets(names: Sequence[SecretName]) -> Mapping[str, str]:
        assert [(each.name, each.scope) for each in names] == [("ray-token", SERVER)]
        return {"ray-token": "of-the-server\n"}

    kind = RayKind(Supplies(copies=tmp_path, secrets=secrets))
    assert kind._token(settings, "ray-token") == "of-the-server"
    assert kind._token(settings, None) is None

"""`import tarmac`: what it offers, that nothing large is loaded for it, and that types tell the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tarmac

STUB = Path(tarmac.__file__).with_suffix(".pyi")


def test_every_name_is_there_and_typed() -> None:
    typed = {
        name
        for node in ast.walk(ast.parse(STUB.read_text()))
        for name in (
            [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else [node.target.id]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            else []
        )
    }
    assert typed == set(tarmac.__all__)
    for name in tarmac.__all__:
        assert getattr(tarmac, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(tarmac, "nothing_of_that_name")


def test_the_client_loads_nothing_large() -> None:
    code = (
        "import sys, tarmac.client\n"
        "large = {'http.client', 'ssl', 'asyncio', 'email', 'fastapi', 'sqlalchemy', 'yaml', 'click'}\n"
        "print(sorted(large & sys.modules.keys()))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_a_server_is_started_before_the_library_of_requests_is_imported(tmp_path: Path) -> None:
    """That takes twice as long as Python itself, and the server can load meanwhile."""
    code = (
        "import sys\n"
        "from tarmac.client.embedded import EmbeddedServer\n"
        "try: EmbeddedServer(sys.argv[1]).connect(start=False)\n"
        "except FileNotFoundError: print('http.client' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"

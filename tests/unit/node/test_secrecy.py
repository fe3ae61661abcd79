"""The one judge of what may be a secret."""

from __future__ import annotations

import time

import pytest

from tarmac.node.files.masking import NO_SECRETS
from tarmac.node.files.secrecy import hidden, hidden_tree, keys_among, names_secret

HF = "hf_" + "aB3" * 11


@pytest.mark.parametrize(
    "name",
    [
        *(
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "password",
            "apiKey",
            "dbPassword",
            "api-key",
        ),
        *(
            "client_secret",
            "GITHUB_TOKEN",
            "identitytoken",
            "connection_string",
            "auth",
            "credential",
            "TOKEN2",
        ),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "pad_token", "eos_token", "max_token", "tokens", "tokenizer", "author"),
        *("KEYBOARD", "key", "SECRET_PATH_X", "token_file", "username", "ACCESS_KEY_ID", "mask_token"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("env:\n  WANDB_API_KEY: abc123\n  LR: 0.1\n", "env:\n  WANDB_API_KEY: ***\n  LR: 0.1\n"),
        ("export HF_TOKEN=abc && python t.py", "export HF_TOKEN=*** && python t.py"),
        ("train --api-key abc --lr 1", "train --api-key *** --lr 1"),
        ('{"token": "abc", "x": 1}', '{"token": "***", "x": 1}'),
        ("- key: WANDB_API_KEY\n  value: abc\n", "- key: WANDB_API_KEY\n  value: ***\n"),
        (f"login {HF} now", "login *** now"),
        ("git clone https://me:pw@host/x", "git clone https://***@host/x"),
        ("TOKEN: $HF_TOKEN", "TOKEN: $HF_TOKEN"),
        ("TOKEN: ${{ secrets.hf }}", "TOKEN: ${{ secrets.hf }}"),
        ("password: <your password>", "password: <your password>"),
        ('api_key=os.environ["K"]', 'api_key=os.environ["K"]'),
        ("# the token is secret stuff", "# the token is secret stuff"),
        ("password:\nnext: 1", "password:\nnext: 1"),
    ],
)
def test_a_text_is_shown_without_its_keys(text: str, shown: str) -> None:
    assert hidden(text) == shown


def test_json_is_shown_without_its_keys() -> None:
    tree = {"env": {"HF_TOKEN": "abc", "LR": "1"}, "command": f"run {HF}", "list": ["plain"], "n": 1}
    shown = {"env": {"HF_TOKEN": "***", "LR": "1"}, "command": "run ***", "list": ["plain"], "n": 1}
    assert hidden_tree(tree) == shown


def test_in_what_a_program_writes_only_what_looks_like_a_key_is_hidden() -> None:
    assert NO_SECRETS.text("api_key=ab12cd34ef56ab78 next") == "api_key=*** next"
    assert NO_SECRETS.text(f"using {HF}.") == "using ***."
    for line in ("token: tokenizer", "tokens/s=12345678901234567", "secret = short1", "loss=0.1 key: 5"):
        assert NO_SECRETS.text(line) == line


def test_variables_with_keys_are_named() -> None:
    found = keys_among({"LR": "1", "HF_TOKEN": "x", "OTHER": HF, "API_KEY": "$K", "PASSWORD": ""})
    assert [key.name for key in found] == ["HF_TOKEN", "OTHER"]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "token=" * 30_000,
        "sk-" * 60_000,
        "key:" + " " * 200_000,
        "-----BEGIN PRIVATE KEY-----" * 500,
        "name: A " * 20_000,
        "eyJaaaaaaaaaaa." * 10_000,
        "://" + "a" * 100_000,
        "--a" * 50_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """Hostile texts cost time in proportion to their length."""
    begun = time.process_time()
    hidden(text)
    NO_SECRETS.text(text)
    assert time.process_time() - begun < 5.0

"""What holds for every test: Hypothesis bounds no example in time, because a machine may be busy."""

from __future__ import annotations

from hypothesis import settings

from examples import examples

settings.register_profile("tarmac", deadline=None, max_examples=examples(100))
settings.load_profile("tarmac")

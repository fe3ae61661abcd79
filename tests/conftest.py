"""What holds for every test: Hypothesis bounds no example, because a machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tarmac", deadline=None)
settings.load_profile("tarmac")

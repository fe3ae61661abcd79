"""Run + allocation + nodes to argv and environment per worker. Pure; called by `control`.

What holds for every run, whatever file it came from (`compose`), and the texts that a batch system would be
sent (`unicore_job`, `batch_script`). What one system promises to its runs is added to the finished launch by
its dialect (`dialects.registry.apply_conventions`).
"""

from tarmac.launch.compose import compose
from tarmac.launch.unicore_job import site_name, site_text

__all__ = ["compose", "site_name", "site_text"]

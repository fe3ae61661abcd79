"""How quick the page is with many runs, many tabs, and a long log: `python -m benchmarks.page`."""

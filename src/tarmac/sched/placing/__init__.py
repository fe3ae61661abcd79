"""Where a gang can sit on the nodes of a pool: what is free, which nodes do, and why the others do not."""

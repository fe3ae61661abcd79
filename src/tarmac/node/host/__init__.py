"""What is done on the host of a cluster: where its commands work, and its directory is seen."""

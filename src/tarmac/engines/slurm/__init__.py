"""The Slurm engine: attempts are jobs of a Slurm cluster, local or reached over SSH."""

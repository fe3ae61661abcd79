"""The engine `firecrest`: jobs of a Slurm behind a firecREST of version 2."""

"""The dialect `mantik`: compute backend configurations for HPC sites, with the MLflow project beside them."""

"""Experiment configurations of Determined: read and checked as that system does, made into a run."""

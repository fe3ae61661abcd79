"""Adapters of the port of providers: machines that an account of a cloud, or an administrator's own commands,
rent out.
"""

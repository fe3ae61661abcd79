"""Versions of artifacts in a store. Made by a `sidecar` on each node; listed and cleared by the server.

`sync` makes a version of the files that `quiescence` finds whole, `restore_inputs` and `restore` place one;
`manifest` defines a version, `blobs` and `stores` its storage; `catalog`, `listed`, `retention` and
`store_lock` serve the server.
"""

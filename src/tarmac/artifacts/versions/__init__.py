"""Versions of artifacts in a store. Made by a `sidecar` on each node; listed and cleared by the server.

`sync` makes a version of what `quiescence` says is whole, `restore_inputs` and `restore` place one;
`manifest` says what a version is, `blobs` and `stores` where it lies; `catalog`, `listed`, `retention` and
`store_lock` serve the server.
"""

"""Versions of artifacts in a store. Made by a `sidecar` on each node; listed and cleared by the server.

`sync` makes a version of what `stillness` says is whole, `filling` and `restore` place one; `manifest` says
what a version is, `blobs` and `stores` where it lies; `catalog`, `listed`, `retention` and `turns` serve the
server.
"""

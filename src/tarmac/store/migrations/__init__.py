"""The history of the schema, one module per step in `versions`; run by `store.upgrade` alone.

There is no way down: a database that a newer tarmac has opened stays newer
(docs/contributing/decisions/0001).
"""

"""The history of the schema, one module per step in `versions`; run by `store.upgrade` alone.

There are no downgrades: a database that a newer tarmac has opened stays newer
(docs/contributing/decisions/0001).
"""

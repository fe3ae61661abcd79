"""The durable record, in SQL. Wired in `server/wiring.py`.

All SQL of tarmac is in this package. Reading order: `schema` (tables), `statements` (every statement), `rows`
(records to rows and back), `checks` (what may be written), `sql` (the adapter).
"""

from tarmac.store.announcements import SqlAnnouncements
from tarmac.store.sql import SqlStore, open_store

__all__ = ["SqlAnnouncements", "SqlStore", "open_store"]

"""One module per migration, named by its number.

How to add one: docs/contributing/checklists/new-table-or-column.md.
"""

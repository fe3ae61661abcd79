"""One module per migration, named by its number; how to add one: docs/checklists/new-table-or-column.md."""

"""Edits applied to a table's schema: the next schema, and what an edit does to the rows that exist."""

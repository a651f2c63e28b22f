"""Edits applied to a table's schema: the next schema, and the effects on existing rows."""

"""SQL text → statements and edits (reader) → the next schema and its effects on rows (apply)."""

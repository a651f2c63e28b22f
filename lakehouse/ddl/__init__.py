"""SQL text to statements and edits (parse), and to the next schema and its effects on rows (apply)."""

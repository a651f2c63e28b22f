"""SQL text of a DDL statement to edits (lakehouse.ddl.edits): tokens, statements, and a module per kind of
clause.
"""

"""The changes of a lineage to rows: the current row of each key, the row after every commit, and versions of
rows.

Pure functions; the same changes give the same rows, however they were batched, reordered or repeated.
"""

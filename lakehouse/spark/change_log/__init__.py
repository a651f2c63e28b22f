"""Readings of silver: changes of a lineage, the schema history, the watermark, open dead letters."""

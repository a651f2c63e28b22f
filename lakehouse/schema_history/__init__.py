"""The DDL and schema records of one source, in order, to the lineages of its tables."""

"""From the DDL and schema records of a source, in order, to the lineages of its tables."""

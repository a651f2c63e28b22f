"""The ops tables without Spark: the parts of records, what is pruned of them, and the file lock of a run."""

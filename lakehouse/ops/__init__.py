"""The ops tables without Spark: the records of the ops log, and the file lock of a run."""

"""What the ops tables hold, without Spark: the records of the ops log, and the file lock of a run."""

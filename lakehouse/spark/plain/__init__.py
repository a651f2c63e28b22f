"""Delta tables on this machine's own disk, written by the driver without Spark: plain ones alone."""

"""Delta tables on this machine's own disk, written without Spark: by the driver, and files by workers."""

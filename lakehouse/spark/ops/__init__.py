"""The ops tables: the log of a source, leases, run records, the lake's own record, who owns a gold name."""

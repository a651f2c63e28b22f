"""The ops tables: a source's log, leases, run records, the lake's own record, owners of gold names."""

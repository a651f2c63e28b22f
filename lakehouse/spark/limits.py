"""Sizes above which a step runs as Spark jobs; below them the driver does it.

Both ways give the same rows and states, so a limit is a matter of speed and memory alone. They are read as
attributes of this module (`limits.GOLD_TABLE_CHANGES`), at each use: whoever sets one, a test above all, sets
it for everybody.
"""

MIB = 1024 * 1024

# silver: a batch of up to so many bronze records is decoded on the driver
SILVER_BATCH_RECORDS = 20_000
SILVER_BATCH_BYTES = 16 * MIB

# gold: a table of up to so many changes in silver is folded on the driver
GOLD_TABLE_CHANGES = 50_000
GOLD_TABLE_BYTES = 64 * MIB

# gold: a window of up to so many changes over all tables is read by the driver at once
GOLD_WINDOW_CHANGES = 50_000
GOLD_WINDOW_BYTES = 64 * MIB

# gold: so many changes of small tables are read together in one query
GOLD_GROUP_CHANGES = 200_000
GOLD_GROUP_BYTES = 128 * MIB

# gold: into a table of up to so many bytes the driver merges by itself, on a machine's own disk
GOLD_MERGE_BYTES = 4 * MIB

# ops: a source's log keeps the records of so many runs, or of as many as have so many characters; what is
# older goes to its archive
OPS_LOG_RUNS = 400
OPS_LOG_SIZE = 8 * MIB

# verify: a range of the source's key, which one statement reads; rows that are summed up together, and how
# many such sums there are at most; and rows that differ, of which more are counted and not named
VERIFY_RANGE_ROWS = 50_000
VERIFY_BUCKET_ROWS = 1_000
VERIFY_BUCKETS = 65_536
VERIFY_NAMED_ROWS = 100_000

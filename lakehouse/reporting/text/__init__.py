"""What commands print for people: pure functions from the records that `--json` prints, and the clock, to
text and tables. Nothing here reads a lake or starts Spark.
"""

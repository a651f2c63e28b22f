"""Expectations on rows: the suite of a table, and the row after each change, which a suite evaluates.
lakehouse.spark.quality runs it.
"""

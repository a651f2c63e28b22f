"""Expectations on rows: the suite of a table, and the row after each change that a suite judges.
lakehouse.spark.quality runs it.
"""

"""Expectations in Spark: compiled to columns, evaluated by Great Expectations, applied to changes before
gold.
"""

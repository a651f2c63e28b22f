"""Storing a cell into a column (SQL's store assignment): the canonical value that the column then has,
clipped as under a lax sql_mode.

One function per family of the new type, reached through STORES. Each raises NoRule for what no rule decides.
"""

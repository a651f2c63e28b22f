"""Exact Delta Lake tables from TiDB and MySQL change feeds."""

__version__ = "0.1.0"

"""Exact Delta Lake tables from TiDB and MySQL change feeds."""

__version__ = "0.1.0"

# What pip and the metadata call this package: `lakehouse` on PyPI is a project of somebody else.
DISTRIBUTION = "lakehouse-cdc"

"""Values of MySQL and TiDB: reading them from text and bytes, conversions, defaults, normal form, and types
of gold.

Plain functions on plain values. Nothing here knows a wire format, a message or a table's history.
"""

"""What a MySQL or TiDB value is: read from text and bytes, converted, defaulted, in normal form, and as
gold's type.

Plain functions on plain values. Nothing here knows a wire format, a message or a table's history.
"""

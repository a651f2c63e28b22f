"""TiCDC: Open Protocol, canal-json, its Debezium dialect, the storage sink, and large messages (compression,
claim check).
"""

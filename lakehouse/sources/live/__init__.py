"""Snapshots of live tables over MySQL's protocol, while they change: a server's places, its tables, their
rows in chunks by key, and the records that bronze gets.
"""

"""Snapshots of tables that were there before their feed: the project's own records, which join a source of
any format.
"""

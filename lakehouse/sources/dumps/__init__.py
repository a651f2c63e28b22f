"""Dumps of mysqldump, mydumper and Dumpling: files read to tables and rows, without a server.

Nothing of a dump is executed: CREATE TABLE is read by the DDL reader, INSERT by a reader of its own.
"""

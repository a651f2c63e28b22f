"""Tables that exist are taken over while a writer changes them and everything is killed: a real MariaDB and a
real Kafka, the commands as processes, and `verify` at the end.
"""

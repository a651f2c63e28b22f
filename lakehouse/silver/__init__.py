"""The rules of silver: identity of changes, redelivery after a restart, watermarks from transactions, rows as
silver stores them.

lakehouse.spark.silver.run runs it.
"""

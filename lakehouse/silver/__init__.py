"""What makes two changes the same one, what a restarted feed sends again, and watermarks from transactions.

lakehouse.spark.silver.run runs it.
"""

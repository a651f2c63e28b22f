"""What a gold table is: its options, columns, modes, masks and shards. lakehouse.spark.gold.run runs it."""

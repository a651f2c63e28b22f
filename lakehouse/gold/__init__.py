"""The rules of a gold table: options, columns, modes, masks and shards. lakehouse.spark.gold runs them."""

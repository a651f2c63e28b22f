"""The only place that sees Spark, Delta, Arrow and Great Expectations."""

"""The layers run in Spark: the only package that imports Spark, Delta, Arrow and Great Expectations."""

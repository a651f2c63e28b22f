"""Folds the changes of a large table in Spark jobs, by the rules of lakehouse/fold. Knows neither gold's
Delta tables nor runs.
"""

"""Kafka, storage sinks and recordings, read without Spark: clients, listings, offsets."""

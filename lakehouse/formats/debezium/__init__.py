"""Debezium's native MySQL and MariaDB connectors: envelope, Kafka Connect schemas, values, transactions."""

"""Raw messages and files to bronze: Kafka, storage sinks, recordings, claim-check payloads."""

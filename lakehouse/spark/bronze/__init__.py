"""Landing raw messages and files in bronze: Kafka, storage sinks, recordings, claim-check payloads."""

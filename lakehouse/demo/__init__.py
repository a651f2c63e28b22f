"""The demo: an embedded Kafka broker, a recorded stream of a small shop, and a run over it."""

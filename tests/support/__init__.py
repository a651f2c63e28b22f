"""What tests share: encoders, feeds, models of a source, the engine in memory, judges. No tests."""

"""Gold held against the source's server (lakehouse/verification), as Spark jobs."""

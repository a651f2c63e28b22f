"""Java, jars and class archives of a local Spark session, kept in one cache."""

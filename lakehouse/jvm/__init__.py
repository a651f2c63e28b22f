"""What a local Spark session needs around it: Java, jars and class archives, kept in one cache."""

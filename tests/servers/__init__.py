"""Real servers that tests start on 127.0.0.1: MariaDB, Spark Connect, a Spark cluster."""

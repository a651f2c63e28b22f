"""What a Databricks bundle consists of beside the package: its files and its dashboard."""

"""The Databricks bundle: its files, its wheel and its dashboard."""

"""The real Databricks CLI over the bundle, against a stand-in for a workspace: `python -m tests.bundle`."""

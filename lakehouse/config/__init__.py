"""The YAML of sources and tables to validated models; every problem at once, with file and line."""

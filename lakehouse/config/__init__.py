"""Validated models of the YAML of sources and tables; every problem is reported at once, with file and
line.
"""

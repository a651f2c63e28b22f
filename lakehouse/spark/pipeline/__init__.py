"""Runs: select sources, one pass over their layers, continuous runs, `try` on a recording."""

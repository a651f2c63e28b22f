"""Runs silver to gold: plan the run, fold and merge each table, publish the manifest."""

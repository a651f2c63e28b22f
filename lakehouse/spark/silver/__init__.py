"""Runs bronze to silver: plan a batch, decode it, drop duplicates, write it, and record that it is done."""

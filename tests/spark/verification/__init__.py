"""Tests of gold against the source's server."""

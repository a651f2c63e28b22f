"""Operators' commands: epochs, dead letters, schemas, decisions on DDL, rebuilds, retention, maintenance."""

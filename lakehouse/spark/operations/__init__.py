"""What operators ask for: epochs, dead letters, schemas, decisions on DDL, rebuilds, retention,
maintenance.
"""

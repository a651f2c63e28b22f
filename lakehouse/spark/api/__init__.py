"""The Python API: an opened lake with its tables, their changes and their states; and what notebooks need
besides. `lakehouse/api.py` has the public names. Read only.
"""

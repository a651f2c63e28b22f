"""Real producers under random programs: a database, the producer's own server beside it, and what
`lakehouse` makes of its messages.
"""

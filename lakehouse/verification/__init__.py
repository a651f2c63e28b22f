"""Gold tables against the source's own server: the text of a cell that both sides compute, the statements
that read the server, and what a difference is.
"""

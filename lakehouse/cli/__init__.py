"""The command line: one function per command, grouped by who needs it; all work is done elsewhere."""

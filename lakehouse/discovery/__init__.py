"""Feeds that nobody has described: what is in them (inspect, survey), which format they are, what `init`
writes and what `doctor` finds.
"""

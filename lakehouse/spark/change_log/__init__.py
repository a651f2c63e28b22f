"""Silver as its readers want it: changes of a lineage, the schema history, the watermark, open dead
letters.
"""

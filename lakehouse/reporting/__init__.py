"""Output for people and monitors: Prometheus text, OpenLineage events, logs; texts and pages have packages of
their own.
"""

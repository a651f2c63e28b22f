"""Output for people and monitors: Prometheus text, the HTML report, OpenLineage events, logs."""

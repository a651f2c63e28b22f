"""Read-only access to a lake: rows, views, status, the timeline, reports."""

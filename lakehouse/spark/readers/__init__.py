"""What is read from a lake and never written: rows, views, status, the timeline, reports."""

"""Pages about a lake, for a browser: the report that is saved, and what `lakehouse ui` serves. No page loads
anything from elsewhere; each is well-formed XML, readable in light and dark, and usable by keyboard.
"""

"""The stream of events that notify open pages of changes."""

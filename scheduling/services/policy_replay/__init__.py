"""Replays of recorded periods under another policy, quota or size of a cell."""

"""Pages about replays of a recorded period."""

"""The reason of a pending job, its expected start, and recommendations."""

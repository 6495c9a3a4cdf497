"""The events of a job and of its pods as sentences, and its attempts."""

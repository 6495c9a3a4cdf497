"""The stream that tells open pages that something changed."""

"""The true reason of a pending job, by definitions and exhaustive search.

Nothing here uses the engine: only the plain data that goes into it and comes out of it.
"""

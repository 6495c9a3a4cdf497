"""Processes in addition to a web process, for computations that would hold its interpreter lock for seconds.

The threads that answer requests share one lock: while one of them computes, none of the others runs.
"""

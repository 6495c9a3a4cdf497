"""`allotment up`: one process that starts all others, restarts them, and ends them when it ends.

It imports neither Django nor Celery. Its children are ordinary commands that can be started by hand, each in
its own session, tied to the supervisor by the kernel (`tether`), so that not even kill -9 leaves one behind.
"""

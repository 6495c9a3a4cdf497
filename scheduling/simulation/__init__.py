"""Offline simulations: the engine schedules the jobs or pods of traces in virtual time, and results are
counted."""

"""Offline studies: traces are read, virtual time passes, results are counted; the engine decides."""

"""The prediction of starts: run times and arrivals learned from history, and futures run by the engine.

Pure: no Django, no clock; every source of chance is a seed.
"""

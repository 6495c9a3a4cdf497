"""Imports job traces of other clusters into the running platform."""

"""Small functions that make rows, each with one sensible default per argument.

They write rows directly: a test of one service should not fail because another one is broken.
"""

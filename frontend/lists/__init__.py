"""The lists of the console: their declarations by pages, and their state in the address and the reader's
choice.
"""

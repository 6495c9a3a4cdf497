"""The lists of the console: what a page declares of one, and what the address and the reader make of it."""

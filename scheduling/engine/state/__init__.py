"""The state of one cycle: a snapshot whose usage can be changed and undone."""

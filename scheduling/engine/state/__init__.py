"""What a cycle works on: a snapshot whose usage can be changed and undone."""

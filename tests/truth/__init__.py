"""The truth test: a separate oracle checks what the engine reports for pending jobs, in random cells."""

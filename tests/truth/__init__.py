"""The truth test: an oracle of its own judges what the engine tells jobs that wait, in random cells."""

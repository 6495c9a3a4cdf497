"""Expected starts of waiting jobs: forecast for a cell at once, stored, and compared with what happens."""

"""Expected starts of pending jobs: forecast for a whole cell, stored, and compared with the actual starts."""

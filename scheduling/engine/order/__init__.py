"""In which order jobs are looked at."""

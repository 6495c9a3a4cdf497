"""The window of a series: its buckets, the tables it is read from, gaps and history."""

"""The window of a series: its buckets, the tables from which it is read, gaps and history."""

"""The parts that every process of an installation shares: paths, logs, start-up, the beat schedule."""

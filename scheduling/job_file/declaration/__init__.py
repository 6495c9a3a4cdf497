"""The declaration of every field of a job file, and its description for readers."""

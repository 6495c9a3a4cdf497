"""Where a task may run, where it should run, and which cards it gets."""

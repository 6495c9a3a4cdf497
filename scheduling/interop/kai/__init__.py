"""Cases of KAI-Scheduler, read into the engine's terms and run."""

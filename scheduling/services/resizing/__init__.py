"""Changes the GPU memory of running tasks."""

"""Reading queues on behalf of a viewer, and the flavors that they name."""

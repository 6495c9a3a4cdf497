"""Reading GPUs through NVML: the calls, what they mean as measures, and the process that makes them."""

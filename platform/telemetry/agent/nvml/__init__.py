"""Reads GPUs through NVML: the calls, their conversion to measures, and the process that makes them."""

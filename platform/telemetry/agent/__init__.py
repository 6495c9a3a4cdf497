"""The program on each GPU node: it measures GPUs, and changes the memory of slices. No Django."""

"""The program on each GPU node: standard library only, no Django."""

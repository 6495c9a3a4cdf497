"""Checks Kueue's tables of single functions: quota, flavors, order, preemption, topology."""

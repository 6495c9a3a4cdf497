"""Kueue's tables of single parts: quota, flavors, order, preemption, topology."""

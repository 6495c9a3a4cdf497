"""Pods and containers as objects of Kubernetes, their events and their output."""

"""Predicts starts from run times and arrivals of the past, and from futures that the engine simulates.

It is pure: no Django, no clock; all randomness comes from seeds.
"""

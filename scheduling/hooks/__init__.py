"""Hooks that packages in higher layers implement for scheduling."""

"""The console's views: each parses, calls one service or selector, and renders."""

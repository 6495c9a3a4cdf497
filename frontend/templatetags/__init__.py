"""Template tags: `ui` for common page components, `amounts` for numbers and times, `capacity` for meters, GPU
tiles and charts.
"""

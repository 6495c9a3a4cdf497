"""Template tags: `ui` for the page's furniture, `amounts` for numbers and times, `capacity` for meters,
GPU tiles and charts."""

"""The frame of every page: navigation, context, forms, static files."""

"""What every page has around its content: navigation, context, forms, static files."""

"""Where the packages above register what scheduling asks of them."""

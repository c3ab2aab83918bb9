"""The race against the packages that are installed."""

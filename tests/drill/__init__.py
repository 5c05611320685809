"""The drill, in short, and that it can fail."""

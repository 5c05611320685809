"""The drill: real servers fail while processes write, and nothing acknowledged may be lost."""

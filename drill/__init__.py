"""The drill: real servers fail while real processes write, and everything acknowledged must be there in the end, once."""

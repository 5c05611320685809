"""Servers and networks that fail, for real."""

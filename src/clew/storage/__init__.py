"""Storages: they apply commits and answer queries, and do not interpret states."""

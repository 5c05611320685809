"""Storages: they apply commits and answer queries, and know nothing of states."""

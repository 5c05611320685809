"""Tests of dependency injection."""

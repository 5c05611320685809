"""Programs to copy from, each run by a test in tests/examples."""

"""The public API: async methods and their sync twins, over any storage."""

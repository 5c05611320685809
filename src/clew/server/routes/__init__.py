"""Routes of the HTTP API, in groups like those of the checkpointer's methods."""

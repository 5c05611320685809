"""A chat on Clew: users, threads, search, regenerated answers, live updates."""

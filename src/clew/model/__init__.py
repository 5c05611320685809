"""What Clew talks about: frozen data, no I/O. `clew` re-exports what users need."""

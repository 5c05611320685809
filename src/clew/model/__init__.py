"""The data model: frozen data, no I/O. `clew` re-exports what users need."""

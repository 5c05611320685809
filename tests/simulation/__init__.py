"""The simulator: that it finds what is wrong, goes the same way twice, and finds nothing in the code as it is."""

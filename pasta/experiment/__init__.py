"""One program run at several collection levels, several times, for several values of parameters."""

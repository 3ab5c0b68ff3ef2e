"""The system that a run is on, as a graph, and runs that span several of its hosts; see docs/system.md."""

"""All that runs inside a recorded program; imports nothing but the standard library."""

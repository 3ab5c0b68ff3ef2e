"""What writes traces in the formats of other programs."""

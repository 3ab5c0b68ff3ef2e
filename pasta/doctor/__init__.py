"""`pasta doctor`: what works on this machine, what does not, why, and what to do about it."""

"""Collector of what NVIDIA cards tell of themselves over time: clocks, power, temperature, memory."""

"""Collectors by eBPF: scripts for bpftrace, and what makes tables of their output."""

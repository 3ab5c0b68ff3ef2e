"""From decoded values of any source to columns: numbers, times, texts, call stacks, parents."""

"""The collector `cpu`: stacks of what runs on the CPU, by py-spy or by perf, whatever is allowed."""

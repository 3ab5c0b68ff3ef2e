"""The PyTorch collector: all that runs inside a program that uses PyTorch."""

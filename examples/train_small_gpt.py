"""Train a small GPT for three steps: a program to record.

pasta collect --with cuda.memory,torch -o t -- python examples/train_small_gpt.py
pasta collect --with cuda,cuda.memory,torch -o t -- python examples/train_small_gpt.py
pasta run working_set --trace t
"""

from __future__ import annotations

import sys

import torch
from record_training_step import GPT, train


def main() -> None:
    """Train on the device that the command line names, else on a GPU where there is one."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = GPT().to(device)
    train(model, torch.optim.AdamW(model.parameters(), lr=3e-4))
    print(f"three steps on {device}")


if __name__ == "__main__":
    main()

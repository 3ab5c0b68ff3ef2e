"""Run a small GPT forward, a batch a step: the program of examples/levels.yaml.

pasta experiment run examples/levels.yaml
"""

from __future__ import annotations

import sys

import torch
from record_training_step import CONTEXT, GPT, VOCABULARY

import pasta

STEPS = 10


def main() -> None:
    """Take batches of as many texts as the command line says, on a GPU where there is one."""
    batch = int(sys.argv[1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = GPT().to(device).eval()
    with torch.inference_mode():
        for _ in range(STEPS):
            pasta.step()
            with pasta.annotate("predict"):
                tokens = torch.randint(VOCABULARY, (batch, CONTEXT), device=device)
                model(tokens).argmax().item()


if __name__ == "__main__":
    main()

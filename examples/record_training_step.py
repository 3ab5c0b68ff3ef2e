"""Record three training steps of a small GPT: this made the trace that ships with pasta.

pip install 'pasta-trace[torch]'
python examples/record_training_step.py        # writes pasta-gpt_cpu
pasta run working_set --trace pasta-gpt_cpu
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn
from torch.nn import functional

import pasta
from pasta.collect.torch import record

VOCABULARY = 1000
CONTEXT = 64
WIDTH = 128
HEADS = 4
LAYERS = 2
BATCH = 4
STEPS = 3


class Attention(nn.Module):
    """Causal self-attention over `HEADS` heads."""

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Mix each position of `hidden` (batch, position, width) with those before it."""
        batch, length, width = hidden.shape
        parts = self.query_key_value(hidden).split(width, dim=2)
        query, key, value = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in parts
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.perceptron_norm = nn.LayerNorm(WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform `hidden` (batch, position, width)."""
        hidden = hidden + self.attention(self.attention_norm(hidden))
        return hidden + self.perceptron(self.perceptron_norm(hidden))


class GPT(nn.Module):
    """A decoder-only transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.vocabulary = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token for each of `tokens` (batch, position)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.tokens(tokens) + self.positions(positions)
        return self.vocabulary(self.norm(self.blocks(hidden)))


def train(model: GPT, optimizer: torch.optim.Optimizer) -> None:
    """Train on random tokens, which is as good as any text for a trace."""
    device = model.vocabulary.weight.device
    for _ in range(STEPS):
        with pasta.annotate("load batch"):
            text = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), device=device)
            tokens, following = text[:, :-1], text[:, 1:]
        logits = model(tokens)
        with pasta.annotate("loss"):
            loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        with pasta.annotate("clip gradients"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def forget_host(trace: Path) -> None:
    """Blank the host's name, as for a trace that is given away."""
    for file in (trace / "process").glob("*.parquet"):
        table = pq.read_table(file)
        place = table.schema.get_field_index("host")
        table = table.set_column(place, table.schema.field("host"), [[""] * table.num_rows])
        pq.write_table(table, file, compression="zstd")
    manifest = trace / "trace.json"
    about = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**about, "host": ""}, indent=2) + "\n")


def main() -> None:
    """Record the steps and tell where the time of the operators went."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for times that other work on the machine disturbs least
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with record("gpt_cpu") as recorder:
        train(model, optimizer)
    forget_host(recorder.path)
    operators = recorder.trace().scan("span").filter(pl.col("level") == "operator")
    by_name = operators.group_by("name").agg(pl.len().alias("calls"), pl.col("dur").sum())
    print(by_name.sort("dur", descending=True).head(10).collect())
    print(f"{recorder.path}: {recorder.trace().rows('touch')} touches of storages")


if __name__ == "__main__":
    main()

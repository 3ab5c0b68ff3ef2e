"""The six models of the paper's Table V with random weights, to be recorded on a CPU or a GPU.

pasta collect --with torch:touch --idle -o resnet18 -- python examples/paper_models.py resnet18
pasta run working_set_table --run resnet18=resnet18

Shapes and batch sizes are the paper's. It gives lengths of texts as ranges; those here are the
ones that its largest working sets tell (docs/reproduction.md).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

import pasta

IMAGE, WIDTH, HEADS, LAYERS = 512, 768, 12, 12


def alexnet() -> nn.Module:
    """Return AlexNet in its one-tower form, for ten classes."""
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True)),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 10)),
    )


class Residual(nn.Module):
    """Two convolutions of 3x3 around which the input is led."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.activation = nn.ReLU(inplace=True)
        self.around: nn.Module = nn.Identity()
        if stride > 1:
            shorter = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.around = nn.Sequential(shorter, nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Return images of the same or half the size."""
        hidden = self.activation(self.first_norm(self.first(images)))
        hidden = self.second_norm(self.second(hidden))
        hidden += self.around(images)
        return self.activation(hidden)


def resnet(blocks: tuple[int, ...]) -> nn.Module:
    """Return a residual network with so many blocks in each of its four stages."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            layers.append(Residual(channels, 64 << stage, stride))
            channels = 64 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Attention(nn.Module):
    """Attention in one operator, or one whose scores are tensors of their own ("eager")."""

    fused = False

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, others: Tensor, mask: Tensor | None) -> Tensor:
        """Mix into each position of `hidden` (batch, position, width) positions of `others`."""
        query, key, value = self.query(hidden), self.key(others), self.value(others)
        query, key, value = (
            part.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for part in (query, key, value)
        )
        if self.fused:
            mixed = functional.scaled_dot_product_attention(query, key, value, mask)
            return self.output(mixed.transpose(1, 2).flatten(2))
        scores = query @ key.transpose(2, 3) / math.sqrt(WIDTH / HEADS)
        if mask is not None:
            scores = scores + mask
        weights = self.dropout(functional.softmax(scores, dim=3))
        return self.output((weights @ value).transpose(1, 2).flatten(2))


class ComposedGelu(nn.Module):
    """GELU by its approximation, of one operator after the other, as GPT-2's code has it."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        inner = math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden.pow(3))
        return 0.5 * hidden * (1 + torch.tanh(inner))


class Layer(nn.Module):
    """Self-attention, attention to an encoder where there is one, and a perceptron."""

    def __init__(self, gelu: nn.Module, *, norm_first: bool, crossed: bool = False) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention, self.crossed = Attention(), Attention() if crossed else None
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3 if crossed else 2))
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), gelu, nn.Linear(4 * WIDTH, WIDTH)
        )
        self.dropout = nn.Dropout(0.1)

    def _around(self, norm: nn.Module, hidden: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return hidden + self.dropout(work(norm(hidden)))
        normed: Tensor = norm(hidden + self.dropout(work(hidden)))
        return normed

    def forward(
        self, hidden: Tensor, mask: Tensor | None = None, encoded: Tensor | None = None
    ) -> Tensor:
        """Return the next layer's input."""
        hidden = self._around(self.norms[0], hidden, lambda x: self.attention(x, x, mask))
        if self.crossed is not None:
            crossed = self.crossed
            hidden = self._around(self.norms[1], hidden, lambda x: crossed(x, encoded, None))
        return self._around(self.norms[-1], hidden, self.perceptron)


class Embedding(nn.Module):
    """Embeddings of tokens and of their places, added."""

    def __init__(self, vocabulary: int, places: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(places, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, position, width)."""
        hidden: Tensor = self.tokens(tokens)
        return hidden + self.places(torch.arange(tokens.shape[1], device=tokens.device))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores of all tokens, by the embedding's own weights."""
        return functional.linear(hidden, self.tokens.weight)


def causal(length: int, device: torch.device) -> Tensor:
    """Return what hides later positions from earlier ones."""
    return torch.full((length, length), -math.inf, device=device).triu(1)


class Bert(nn.Module):
    """BERT's base encoder with its pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = Embedding(30522, 512), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer(nn.GELU(), norm_first=False) for _ in range(LAYERS))
        self.pooler = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a mean loss of two classes."""
        hidden = self.norm(self.embedding(tokens))
        mask = torch.zeros(tokens.shape[0], 1, 1, tokens.shape[1], device=tokens.device)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        classes = torch.zeros(tokens.shape[0], dtype=torch.int64, device=tokens.device)
        return functional.cross_entropy(self.pooler(hidden[:, 0]), classes)


class Gpt2(nn.Module):
    """GPT-2 of 124 million parameters with the loss of its next tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = Embedding(50257, 1024), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer(ComposedGelu(), norm_first=True) for _ in range(LAYERS))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss."""
        hidden, mask = self.embedding(tokens), causal(tokens.shape[1], tokens.device)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        scores = self.embedding.logits(self.norm(hidden))
        return functional.cross_entropy(scores.flatten(0, 1), tokens.roll(-1, 1).flatten())


class Whisper(nn.Module):
    """Whisper's small encoder and decoder with the loss of its next tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(nn.Conv1d(80, WIDTH, 3, 1, 1), nn.GELU(), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.GELU())
        )
        self.places = nn.Parameter(torch.randn(1500, WIDTH))
        self.encoder = nn.ModuleList(Layer(nn.GELU(), norm_first=True) for _ in range(LAYERS))
        self.encoder_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.embedding = Embedding(51865, 448)
        self.decoder = nn.ModuleList(
            Layer(nn.GELU(), norm_first=True, crossed=True) for _ in range(LAYERS)
        )

    def forward(self, sound: Tensor) -> Tensor:
        """Return the mean loss of 148 tokens for each sound of (80, 3000)."""
        encoded = self.convolutions(sound).transpose(1, 2) + self.places
        for layer in self.encoder:
            encoded = layer(encoded)
        encoded = self.encoder_norm(encoded)
        tokens = torch.zeros(sound.shape[0], 148, dtype=torch.int64, device=sound.device)
        hidden, mask = self.embedding(tokens), causal(tokens.shape[1], sound.device)
        for layer in self.decoder:
            hidden = layer(hidden, mask, encoded)
        scores = self.embedding.logits(self.norm(hidden))
        return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


@dataclass(frozen=True)
class Workload:
    """A model and what it is given: shapes of floats, or of tokens where `tokens` says so."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: int = 0

    def inputs(self, device: str) -> Tensor:
        """Return a random batch."""
        if self.tokens:
            return torch.randint(self.tokens, self.shape, device=device)
        return torch.randn(self.shape, device=device)


WORKLOADS = {
    "alexnet": Workload(alexnet, (128, 3, IMAGE, IMAGE)),
    "resnet18": Workload(lambda: resnet((2, 2, 2, 2)), (32, 3, IMAGE, IMAGE)),
    "resnet34": Workload(lambda: resnet((3, 4, 6, 3)), (32, 3, IMAGE, IMAGE)),
    "bert": Workload(Bert, (16, 378), 30522),
    "gpt2": Workload(Gpt2, (8, 487), 50257),
    "whisper": Workload(Whisper, (16, 80, 3000)),
}


def main() -> None:
    """Run one iteration of inference, or with `--train` of training."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=WORKLOADS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, help="in place of the paper's batch size")
    parser.add_argument("--train", action="store_true", help="forward, backward and a step of SGD")
    parser.add_argument(
        "--image-by-image", action="store_true", help="convolutions without cuDNN, as in the paper"
    )
    parser.add_argument("--fused", action="store_true", help="attention in one operator")
    given = parser.parse_args()
    Attention.fused = given.fused
    torch.backends.cudnn.enabled = not given.image_by_image
    workload = WORKLOADS[given.model]
    if given.batch:
        shape = (given.batch, *workload.shape[1:])
        workload = Workload(workload.build, shape, workload.tokens)
    torch.manual_seed(0)
    model = workload.build().to(given.device).train(given.train)
    inputs = workload.inputs(given.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with pasta.region(), torch.set_grad_enabled(given.train):
        outputs = model(inputs)
        if given.train:
            outputs.mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()

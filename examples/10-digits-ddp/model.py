"""The data and the network of the digits example; train.py uses them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Digits:
    """Images of 8 x 8 pixels, and which digit each shows."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


class Network(nn.Module):
    """Two convolutions and two dense layers; dropout makes every step depend on the random state."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        return scores


def load_split(*, seed: int) -> tuple[Digits, Digits]:
    """The digits for training and those held back, always split alike for a seed."""
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.images, digits.target, test_size=0.2, random_state=seed, stratify=digits.target
    )
    return _digits(train_x, train_y), _digits(test_x, test_y)


def _digits(images: object, labels: object) -> Digits:
    pixels = torch.as_tensor(images, dtype=torch.float32).unsqueeze(1) / 16.0
    return Digits(pixels, torch.as_tensor(labels, dtype=torch.long))

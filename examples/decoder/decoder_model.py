"""A Llama-like model with made-up weights, in f16, f8 or 4 bits, and what it computes in f32, by NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from decoder_kernels import EPSILON, GROUP, ROPE_BASE

LARGEST = {"f8": 448.0, "i4": 7.0}


@dataclass(frozen=True)
class Model:
    """The sizes of a model: `shared` heads of keys and values for all `heads`, each of `size` features."""

    vocabulary: int = 512
    width: int = 256
    heads: int = 4
    shared: int = 2
    size: int = 64
    hidden: int = 512
    layers: int = 2

    def matrices(self) -> dict[str, tuple[int, int]]:
        """The shapes of a layer's matrices: results, operands."""
        return {
            "qkv": ((self.heads + 2 * self.shared) * self.size, self.width),
            "out": (self.width, self.heads * self.size),
            "gate_up": (2 * self.hidden, self.width),
            "down": (self.width, self.hidden),
        }


@dataclass(frozen=True)
class Matrix:
    """A matrix [N, K] in memory: its `codes`, and a scale for each column and group of K unless it is f16."""

    codes: np.ndarray
    scales: np.ndarray | None
    values: np.ndarray
    """The dequantised matrix, in f32."""

    @property
    def operands(self) -> tuple[np.ndarray, ...]:
        """The arrays that a product takes."""
        return (self.codes,) if self.scales is None else (self.codes, self.scales)


def quantised(w: np.ndarray, weights: str) -> Matrix:
    """The matrix in f16, in f8 (its bytes), or two numbers of 4 bits a byte, the first in the low half."""
    if weights == "f16":
        codes = w.astype(np.float16)
        return Matrix(codes, None, codes.astype(np.float32))
    groups = w.reshape(len(w), -1, GROUP)
    scales = (np.abs(groups).max(2) / LARGEST[weights]).astype(np.float16)
    scaled = groups / scales[:, :, None].astype(np.float32)
    if weights == "f8":
        numbers = np.clip(scaled, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        codes = numbers.view(np.uint8).reshape(w.shape)
    else:
        numbers = np.clip(np.rint(scaled), -7, 7).astype(np.int8)
        codes = ((numbers[..., ::2] & 15) | (numbers[..., 1::2] << 4)).view(np.uint8).reshape(len(w), -1)
    values = numbers.astype(np.float32) * scales[:, :, None].astype(np.float32)
    return Matrix(codes, np.ascontiguousarray(scales.T), values.reshape(w.shape))


@dataclass(frozen=True)
class Parameters:
    """All weights of a model: matrices by layer and name, the gains of norms, the table of tokens, the last matrix."""

    model: Model
    matrices: tuple[dict[str, Matrix], ...]
    gains: np.ndarray
    table: np.ndarray
    logits: Matrix


def made_up(model: Model, weights: str, rng: np.random.Generator) -> Parameters:
    """Random weights, of a size that keeps the numbers of every layer near 1."""

    def matrix(n: int, k: int) -> Matrix:
        return quantised((rng.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32), weights)

    layers = tuple({name: matrix(*shape) for name, shape in model.matrices().items()} for _ in range(model.layers))
    gains = rng.uniform(0.5, 1.5, (2 * model.layers + 1, model.width)).astype(np.float16)
    table = rng.standard_normal((model.vocabulary, model.width)).astype(np.float16)
    return Parameters(model, layers, gains, table, matrix(model.vocabulary, model.width))


def reference(given: Parameters, tokens: np.ndarray) -> np.ndarray:
    """The logits after each token of one sequence, in f32."""
    model, positions = given.model, np.arange(len(tokens))
    half, groups = model.size // 2, model.heads // model.shared
    turns = np.exp(1j * positions[:, None] * ROPE_BASE ** (-np.arange(half) / half))[:, None]

    def norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON) * gain.astype(np.float32)

    def turned(x: np.ndarray) -> np.ndarray:
        pairs = (x[..., :half] + 1j * x[..., half:]) * turns
        return np.concatenate([pairs.real, pairs.imag], axis=-1).astype(np.float32)

    x = given.table[tokens].astype(np.float32)
    unseen = np.where(positions[:, None] < positions, -np.inf, 0)
    for layer, of_attention, of_gates in zip(given.matrices, given.gains[::2], given.gains[1::2], strict=False):
        qkv = (norm(x, of_attention) @ layer["qkv"].values.T).reshape(len(x), -1, model.size)
        q, k = turned(qkv[:, : model.heads]), turned(qkv[:, model.heads : model.heads + model.shared])
        k, v = (np.repeat(part, groups, axis=1) for part in (k, qkv[:, model.heads + model.shared :]))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(model.size) + unseen
        powers = np.exp(scores - scores.max(2, keepdims=True))
        mixed = np.einsum("hij,jhd->ihd", powers / powers.sum(2, keepdims=True), v)
        x = x + mixed.reshape(len(x), -1) @ layer["out"].values.T
        gate, up = np.split(norm(x, of_gates) @ layer["gate_up"].values.T, 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer["down"].values.T
    return norm(x, given.gains[-1]) @ given.logits.values.T

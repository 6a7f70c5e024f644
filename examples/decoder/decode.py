"""A decoder of these kernels alone: a token of each sequence a step, on a CPU, or in a CUDA graph on a GPU.

python examples/decoder/decode.py --weights i4 --tokens 20
python examples/decoder/decode.py --weights f8 --batch 16 --tokens 500 --device cuda

A step reads and advances tokens and positions in memory, so that one recorded graph makes all tokens. The weights are
made up: what is compared with `decoder_model.reference` are the logits after the tokens that were drawn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import decoder_kernels as kernels
import numpy as np
from decoder_model import Model, Parameters, made_up, reference

from lego_mlir import f16, f32


class Decoder:
    """A model's kernels, its weights and the state of its sequences; `put` brings an array to the device."""

    def __init__(
        self,
        given: Parameters,
        weights: str,
        first: np.ndarray,
        length: int,
        rng: np.random.Generator,
        put: Callable[[np.ndarray], Any] = np.asarray,
        chosen: int = 8,
    ) -> None:
        model = self.model = given.model
        batch, most = len(first), -(-length // kernels.PAGE)
        self.embed, self.norm = kernels.embedding(model.vocabulary, model.width), kernels.rms_norm(model.width)
        self.product = kernels.linear(weights, kernels.stored, f16)
        self.add_product = kernels.linear(weights, kernels.added, f32)
        self.logits_of = kernels.linear(weights, kernels.stored, f32)
        self.activation = kernels.silu_and_mul(model.hidden)
        heads = (model.heads, model.shared, model.size)
        self.turn, self.attend = kernels.rope_and_cache(*heads), kernels.attention(*heads)
        self.sample = kernels.sampling(model.vocabulary, chosen, temperature=0.8, seed=1)

        def empty(*shape: int, dtype: Any = np.float16) -> Any:
            return put(np.zeros(shape, dtype))

        self.layers = [{name: tuple(map(put, m.operands)) for name, m in layer.items()} for layer in given.matrices]
        self.gains, self.table = [put(gain) for gain in given.gains], put(given.table)
        self.last = tuple(map(put, given.logits.operands))
        pages = rng.permutation(batch * most).reshape(batch, most)
        self.pages = put(pages.astype(np.int32))
        self.tokens, self.positions = put(first.astype(np.int32)), empty(batch, dtype=np.int32)
        written = np.zeros((batch, most * kernels.PAGE), np.int32)
        written[:, 0] = first
        self.written = put(written)
        cache = (batch * most, model.shared, kernels.PAGE, model.size)
        self.caches = [(empty(*cache), empty(*cache)) for _ in given.matrices]
        self.x, self.normed = empty(batch, model.width, dtype=np.float32), empty(batch, model.width)
        self.qkv = empty(batch, model.heads + 2 * model.shared, model.size)
        self.query, self.mixed = (empty(batch, model.heads, model.size) for _ in range(2))
        self.gate_up, self.gated = empty(batch, 2 * model.hidden), empty(batch, model.hidden)
        self.logits = empty(batch, model.vocabulary, dtype=np.float32)

    def launches(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """The kernels of a step with their arguments, in order."""
        batch, gains = len(self.tokens), iter(self.gains)
        yield self.embed, (self.tokens, self.table, self.x)
        for matrices, (keys, values) in zip(self.layers, self.caches, strict=True):
            yield self.norm, (self.x, next(gains), self.normed)
            yield self.product, (self.normed, *matrices["qkv"], self.qkv.reshape(batch, -1))
            yield self.turn, (self.qkv, self.positions, self.pages, self.query, keys, values)
            yield self.attend, (self.query, keys, values, self.pages, self.positions, self.mixed)
            yield self.add_product, (self.mixed.reshape(batch, -1), *matrices["out"], self.x)
            yield self.norm, (self.x, next(gains), self.normed)
            yield self.product, (self.normed, *matrices["gate_up"], self.gate_up)
            yield self.activation, (self.gate_up, self.gated)
            yield self.add_product, (self.gated, *matrices["down"], self.x)
        yield self.norm, (self.x, next(gains), self.normed)
        yield self.logits_of, (self.normed, *self.last, self.logits)
        yield self.sample, (self.logits, self.tokens, self.positions, self.written)

    def step(self) -> None:
        """The next token of each sequence."""
        for kernel, arguments in self.launches():
            kernel(*arguments)


def main() -> None:
    """Decode, compare the last logits with the reference, and print the sequences and the time of a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", choices=kernels.WEIGHTS, default="f16")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=10, help="steps, each of which makes a token of every sequence")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    if min(options.batch, options.tokens) < 1:
        parser.error(f"--batch {options.batch} and --tokens {options.tokens} have to be at least 1")
    rng = np.random.default_rng(0)
    given = made_up(Model(), options.weights, rng)
    first = rng.integers(0, given.model.vocabulary, options.batch)
    put: Callable[[np.ndarray], Any] = np.asarray
    if options.device == "cuda":
        import torch

        def put(array: np.ndarray) -> Any:
            return torch.from_numpy(np.ascontiguousarray(array)).cuda()

    decoder = Decoder(given, options.weights, first, options.tokens + 1, rng, put)
    decoder.step()  # compiles
    step: Callable[[], object] = decoder.step
    if options.device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # records the launches, and runs none
            decoder.step()
        step = graph.replay
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(options.tokens - 1):
        step()
    if options.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    on_host: Callable[[Any], np.ndarray] = np.asarray if options.device == "cpu" else lambda x: x.cpu().numpy()
    written, logits = on_host(decoder.written)[:, : options.tokens + 1], on_host(decoder.logits)
    for b, sequence in enumerate(written):
        expected = reference(given, sequence[: options.tokens])[-1]
        error = np.abs(logits[b] - expected).max() / np.abs(expected).max()
        print(f"sequence {b}: {' '.join(map(str, sequence))}; logits differ by {error:.1e} of the largest")
    made = options.batch * (options.tokens - 1)
    if made:
        print(f"{made} tokens in {seconds:.3f} s after the first step, {made / seconds:.0f} a second")


if __name__ == "__main__":
    main()

"""A decoder of these kernels alone: a token of each sequence a step, on a CPU, or in a CUDA graph on a GPU.

python examples/decoder/decode.py --weights i4 --tokens 20
python examples/decoder/decode.py --weights f8 --batch 16 --tokens 500 --device cuda

A step reads and advances tokens and positions in memory, so that one recorded graph makes all tokens. The weights are
made up: what is compared with `decoder_model.reference` are the logits after the tokens that were drawn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import decoder_kernels as kernels
import numpy as np
from decoder_model import Model, Parameters, made_up, reference

from lego_mlir import f16, f32

CHOSEN = 8  # most probable tokens, of which one is drawn


def kernels_of(model: Model, weights: str) -> dict[str, Any]:
    """The kernels of a step by name."""
    heads = (model.heads, model.shared, model.size)
    return {
        "embed": kernels.embedding(model.vocabulary, model.width),
        "norm": kernels.rms_norm(model.width),
        "product": kernels.linear(weights, kernels.stored, f16),
        "add_product": kernels.linear(weights, kernels.added, f32),
        "logits_of": kernels.linear(weights, kernels.stored, f32),
        "activation": kernels.silu_and_mul(model.hidden),
        "turn": kernels.rope_and_cache(*heads),
        "attend": kernels.attention(*heads),
        "best": kernels.candidates(model.vocabulary, CHOSEN),
        "sample": kernels.sampling(model.vocabulary, CHOSEN, temperature=0.8, seed=1),
    }


class Decoder:
    """A model's weights and the state of its sequences; `put` brings an array to the device, `run` has the kernels."""

    def __init__(
        self,
        given: Parameters,
        run: Mapping[str, Any],
        first: np.ndarray,
        length: int,
        rng: np.random.Generator,
        put: Callable[[np.ndarray], Any] = np.asarray,
    ) -> None:
        model, self.run = given.model, run
        batch, most = len(first), -(-length // kernels.PAGE)

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
        self.gate_up, self.gated = empty(batch, 2, model.hidden), empty(batch, model.hidden)
        self.logits = empty(batch, model.vocabulary, dtype=np.float32)
        found = (batch, -(-model.vocabulary // kernels.PART) * CHOSEN)
        self.best, self.candidates = empty(*found, dtype=np.float32), empty(*found, dtype=np.int32)

    def launches(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """The kernels of a step with their arguments, in order."""
        batch, gains, run = len(self.tokens), iter(self.gains), self.run
        yield run["embed"], (self.tokens, self.table, self.x)
        for matrices, (keys, values) in zip(self.layers, self.caches, strict=True):
            yield run["norm"], (self.x, next(gains), self.normed)
            yield run["product"], (self.normed, *matrices["qkv"], self.qkv.reshape(batch, -1))
            yield run["turn"], (self.qkv, self.positions, self.pages, self.query, keys, values)
            yield run["attend"], (self.query, keys, values, self.pages, self.positions, self.mixed)
            yield run["add_product"], (self.mixed.reshape(batch, -1), *matrices["out"], self.x)
            yield run["norm"], (self.x, next(gains), self.normed)
            yield run["product"], (self.normed, *matrices["gate_up"], self.gate_up.reshape(batch, -1))
            yield run["activation"], (self.gate_up, self.gated)
            yield run["add_product"], (self.gated, *matrices["down"], self.x)
        yield run["norm"], (self.x, next(gains), self.normed)
        yield run["logits_of"], (self.normed, *self.last, self.logits)
        yield run["best"], (self.logits, self.best, self.candidates)
        yield run["sample"], (self.best, self.candidates, self.tokens, self.positions, self.written)

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

    run = kernels_of(given.model, options.weights)
    decoder = Decoder(given, run, first, options.tokens + 1, rng, put)
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

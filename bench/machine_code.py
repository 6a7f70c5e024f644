"""Machine code of a cubin: its instructions by opcode, without padding; needs nvdisasm."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from lego_mlir.toolchain import nvidia_tools

_INSTRUCTION: Final = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
PADDING: Final = frozenset({"NOP", "BRA"})
"""`NOP` fills the end of a function, and a `BRA` to itself follows its last instruction."""


def opcodes(cubin: bytes) -> Counter[str]:
    """The instructions of all functions of a cubin, by the first part of their names."""
    tool = nvidia_tools.find("nvdisasm")
    if tool is None:
        raise SystemExit("nvdisasm is needed: pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.cubin"
        path.write_bytes(cubin)
        text = subprocess.run([tool, "-c", path], capture_output=True, text=True, check=True).stdout
    return Counter(found for found in _INSTRUCTION.findall(text) if found not in PADDING)

"""Threads parse Python text at once."""

import subprocess
import sys

# With ast.parse in its place this ends in a SystemError within a second, on CPython 3.11.
PROGRAM = """
import gc, sys, threading
from lego_mlir.syntax_tree import parse

sys.setswitchinterval(1e-6)
gc.set_threshold(20)
gc.callbacks.append(lambda phase, info: None)  # Python code in the middle of making a tree, where threads may switch
text = "f(" + "+".join(f"(a{i}*{i})" for i in range(400)) + ")"
found = []

def work():
    for _ in range(30):
        parse(text)
    found.append(True)

threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(found))
"""


def test_threads_parse_at_once():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "8", done.stderr[-2000:]

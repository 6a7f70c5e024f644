"""The lego dialect, tested by the distribution's mlir-opt with the plugin."""

# ruff: noqa: F821 (lit defines `config` before it runs this file)

import os
from pathlib import Path

import lit.formats

config.name = "lego-dialect"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(config.plugin).parent.parent / "test" / "output")
config.environment["PATH"] = os.pathsep.join([config.tools, os.environ.get("PATH", "")])

# A sanitized plugin needs the runtime in mlir-opt, before anything else.
sanitizer = (
    f"env LD_PRELOAD={config.preload} ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0 " if config.preload else ""
)
config.substitutions += [
    ("%lego-opt", f"{sanitizer}mlir-opt --load-dialect-plugin={config.plugin}"),
    ("%plugin", config.plugin),
]

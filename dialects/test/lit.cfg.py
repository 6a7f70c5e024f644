"""The lego dialect, tested by the distribution's mlir-opt with the plugin."""

import os

import lit.formats

config.name = "lego-dialect"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(os.path.dirname(config.plugin), "..", "test", "output")
config.environment["PATH"] = os.pathsep.join([config.tools, os.environ.get("PATH", "")])

# A sanitized plugin needs the runtime in mlir-opt, before anything else.
sanitizer = f"env LD_PRELOAD={config.preload} ASAN_OPTIONS=detect_leaks=0 " if config.preload else ""
config.substitutions += [
    ("%lego-opt", f"{sanitizer}mlir-opt --load-dialect-plugin={config.plugin}"),
    ("%plugin", config.plugin),
]

"""The command line: the only part of the project that prints.

Execution begins in `start`, which handles interruption; `main` holds the command registry; each command is one module
with HELP, EXAMPLE, `add_arguments` and `run`.
"""

INTERRUPTED = 130  # 128 + SIGINT, what a shell expects

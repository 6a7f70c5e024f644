"""The command line: the only part of the project that prints.

The program begins in `start`, which handles interruptions; `main` holds the registry of commands; each command is one
module with HELP, EXAMPLE, `add_arguments` and `run`.
"""

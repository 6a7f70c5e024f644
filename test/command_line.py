"""The command line in a test's process: what a command prints, and what one that is refused says."""

from lego_mlir.cli.main import BAD_INPUT, DONE, main


def output_of(capsys, arguments, code=DONE):
    """What a command prints that ends with this exit code."""
    assert main(arguments) == code
    return capsys.readouterr().out


def refusal_of(capsys, arguments):
    """The message of a command that is refused."""
    assert main(arguments) == BAD_INPUT
    return capsys.readouterr().err

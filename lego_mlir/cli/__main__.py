"""`python -m lego_mlir.cli` is `lego-mlir`."""

import sys

from lego_mlir.cli.start import main

if __name__ == "__main__":
    sys.exit(main())

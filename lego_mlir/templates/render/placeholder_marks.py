"""Marks for text that the second pass fills in: characters of Unicode's private use area."""

import re
from typing import Final

MARK: Final = re.compile("\ue000(\\w+)\ue001")
"""The number of a placeholder, `at` and a template line (removed at the end), or one of these words:"""

SIZES: Final = "\ue000sizes\ue001"
HELPERS: Final = "\ue000helpers\ue001"
HINTS: Final = "\ue000hints\ue001"
NO_MASK: Final = "\ue000always\ue001"  # a mask that is proved true

INDENT: Final = "\ue002"  # at the start of a line: copy the indentation of the placeholder's line

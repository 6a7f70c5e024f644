"""What stands in a text for what is known only when the text is whole: characters of Unicode's private use."""

import re
from typing import Final

MARK: Final = re.compile("\ue000(\\w+)\ue001")
"""The number of a placeholder, `at` and a line of the template, of which nothing stays, or one of these words:"""

SIZES: Final = "\ue000sizes\ue001"
HELPERS: Final = "\ue000helpers\ue001"
HINTS: Final = "\ue000hints\ue001"
NO_MASK: Final = "\ue000always\ue001"  # a mask that always holds

INDENT: Final = "\ue002"  # at the start of a line: indented as the line of the placeholder

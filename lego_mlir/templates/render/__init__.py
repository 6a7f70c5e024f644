"""From a template and its layouts to text: Jinja2, placeholders, and the second pass that finishes the text."""

"""The translation check: emitted text read back by the target's rules and compared with its layout."""

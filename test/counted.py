"""Work counted in Python calls: the same number on every machine, where seconds are not."""

import sys


class TooManyCallsError(AssertionError):
    """Work that was stopped because it took more calls than expected."""


def within(most, function):
    """The result of a function that makes at most this many calls of Python functions; it is stopped at the next."""
    left = most

    def count(frame, event, argument):
        nonlocal left
        if event == "call":
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise TooManyCallsError(f"more than {most} calls of Python functions")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return function()
    finally:
        sys.setprofile(before)


def calls(function):
    """How many Python functions are called while this one runs."""
    seen = 0

    def count(frame, event, argument):
        nonlocal seen
        seen += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return seen

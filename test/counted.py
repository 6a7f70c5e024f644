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


def modules_entered(function, until=None):
    """The modules of this package whose functions run while this one does, in order, up to a call of `until`."""
    seen, ended = {}, False

    def note(frame, event, argument):
        nonlocal ended
        if event != "call" or ended:
            return
        ended = until is not None and frame.f_code is until.__code__
        name = frame.f_globals.get("__name__", "")
        if name.startswith("lego_mlir") and not ended:
            seen.setdefault(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return list(seen)


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


def package_calls(function):
    """How many functions of this package are called while this one runs."""
    seen = 0

    def count(frame, event, argument):
        nonlocal seen
        seen += event == "call" and frame.f_globals.get("__name__", "").startswith("lego_mlir")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return seen

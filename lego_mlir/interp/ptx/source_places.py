"""Source places of instructions of PTX: `.file`, `.loc` and the calls into which a line was inlined.

A `.loc` directive holds until the next one. `inlined_at` names the place of the call, which may itself be inlined:

    .loc 1 12 3                                        line 12 of file 1
    .loc 1 30 5, function_name $L_f, inlined_at 1 12 3     line 30, in a function that line 12 calls

PTX ISA, "Debugging Directives". Debug sections (DWARF) are not read; their lines are kept, so that numbers stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lego_mlir.interp.report import Fault, Report, SourceLocation

Loc = tuple[int, int, int]
"""The number of a file, a line and a column."""
DEEPEST: Final = 32
_SECTION: Final = re.compile(r"^[ \t]*\.section\b", re.MULTILINE)
_ASSEMBLY: Final = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
_LOC_LINE: Final = re.compile(r"^[ \t]*\.loc\b.*$", re.MULTILINE)
_LIBRARY: Final = re.compile(r"(^|/)(cuda|nvidia)[^/]*/.*\binclude/|/triton/language/")
"""Headers of the toolkit, and Triton's own functions: a fault there is at the line that calls them."""
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|[0-9]+")


@dataclass(slots=True)
class SourcePlaces:
    """`files` by number, the `.loc` in force at each line of PTX, and the call of each inlined one."""

    files: dict[int, str] = field(default_factory=dict)
    at: dict[int, Loc] = field(default_factory=dict)
    inlined: dict[Loc, Loc] = field(default_factory=dict)
    current: Loc | None = None

    def directive(self, tokens: Sequence[str]) -> bool:
        """Take in a `.file` or `.loc`; False for any other statement."""
        if tokens[:1] == [".file"]:
            self.files[int(tokens[1])] = tokens[2].strip('"')
            return True
        if tokens[:1] != [".loc"]:
            return False
        self.current = _loc(tokens[1:4])
        if "inlined_at" in tokens:
            at = tokens.index("inlined_at") + 1
            self.inlined[self.current] = _loc(tokens[at : at + 3])
        return True

    def note(self, line: int) -> None:
        """A line of PTX has an instruction."""
        if self.current is not None:
            self.at[line] = self.current

    def frames(self, line: int) -> list[SourceLocation]:
        """The source of a line of PTX, then the calls into which it was inlined, the innermost first."""
        return list(self._frames(line))

    def _frames(self, line: int) -> Iterator[SourceLocation]:
        loc = self.at.get(line)
        for _ in range(DEEPEST):
            if loc is None:
                return
            yield SourceLocation(self.files.get(loc[0], f"file {loc[0]}"), loc[1], loc[2])
            loc = self.inlined.get(loc)

    def location(self, place: SourceLocation) -> SourceLocation:
        """The source of a line of PTX: the innermost that is the user's; the line itself where nothing is known."""
        frames = self.frames(place.line) or [place]
        return next((frame for frame in frames if not _LIBRARY.search(frame.file)), frames[0])

    def translate(self, report: Report) -> Report:
        """The report by lines of the source; faults of one kind between the same lines become one."""
        if not self.at:
            return report
        faults: dict[tuple[object, ...], Fault] = {}
        for fault in map(self._translated, report.faults):
            key = (fault.kind, fault.place, fault.other, _NUMBERS.sub("", fault.message))
            if key in faults:
                faults[key].count += fault.count
            else:
                faults[key] = fault
        report.faults = list(faults.values())
        for site in report.sites:
            site.place = self.location(site.place)
        for line in report.mix:
            line.place = self.location(line.place)
        return report

    def _translated(self, fault: Fault) -> Fault:
        def source_line(found: re.Match[str]) -> str:
            number = int(found[1])
            return f"line {self.location(SourceLocation('', number)).line}" if number in self.at else found[0]

        message = re.sub(r"\bline (\d+)", source_line, fault.message)
        frames = self.frames(fault.place.line) or [fault.place]
        place = self.location(fault.place)
        at = frames.index(place)
        message += "".join(f", in {_short(frame)}" for frame in frames[:at])
        message += "".join(f", inlined at {_short(frame)}" for frame in frames[at + 1 :])
        other = None if fault.other is None else self.location(fault.other)
        return replace(fault, place=place, other=other, message=message)


def _short(place: SourceLocation) -> str:
    return f"{place.file.rsplit('/', 1)[-1]}:{place.line}"


def _loc(tokens: Sequence[str]) -> Loc:
    file, line, column = map(int, tokens)
    return file, line, column


def without_sections(text: str) -> str:
    """The text with its debug sections blank, and inline assembly at one place.

    LLVM counts one source line further for each line of inline assembly: the `.loc` inside it is wrong.
    """
    parts, at = [], 0
    for found in _SECTION.finditer(text):
        if found.start() >= at:
            end = text.find("}", found.end()) + 1 or len(text)
            parts += [text[at : found.start()], "\n" * text.count("\n", found.start(), end)]
            at = end
    whole = "".join((*parts, text[at:]))
    return _ASSEMBLY.sub(lambda found: _LOC_LINE.sub("", found[0]), whole)

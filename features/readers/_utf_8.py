"""The error of a text file that is not UTF-8, the same for all readers."""

from __future__ import annotations

from pathlib import Path


def not_utf_8(path: Path, line: int, byte: int, value: int) -> ValueError:
    """An error that names the file, the line of its first bad byte, and what to type.

    line, byte: from 1; the byte's place is counted in its line. value: the byte, 0 to 255.

    >>> print(not_utf_8(Path("jobs.txt"), 3, 7, 0xFC))
    jobs.txt: line 3 must be UTF-8, got the byte 0xfc as its byte 7; convert the file, from Latin-1 with: \
iconv -f latin1 -t utf-8
    """
    is_mark = line == byte == 1 and value in (0xFE, 0xFF)
    source = "UTF-16 with: iconv -f utf-16" if is_mark else "Latin-1 with: iconv -f latin1"
    return ValueError(f"{path}: line {line} must be UTF-8, got the byte 0x{value:02x} as its byte {byte}; convert the "
                      f"file, from {source} -t utf-8")

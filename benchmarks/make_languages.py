"""Make course_lib/data/languages.txt.gz: `python -m benchmarks.make_languages FOLDER`.

It comes from the Unicode Common Locale Data Repository (CLDR), https://cldr.unicode.org, in the version of the package
`babel` on PyPI. FOLDER is where its wheel was unpacked:

    pip download --no-deps babel==2.18.0
    unzip babel-2.18.0-py3-none-any.whl -d FOLDER

Kept are the names of countries and regions, cities, languages and currencies in 32 languages that are written in Latin
letters. Left out are names with digits or brackets, names that are the same in two of the languages (nobody could say
which of them it is), and very long ones. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_lib.languages import LANGUAGES, MAX_LETTERS, NAMES

SIGNS = str.maketrans({"‘": "’", "'": "’", "ʻ": "’", "ʼ": "’", "‑": "-", "–": "-", "—": "-", "\xad": None, "\xa0": " "})
OTHER_SIGNS = " ’-.·"  # beside letters


def is_plain(name: str) -> bool:
    return len(name) <= MAX_LETTERS and all(sign.isalpha() or sign in OTHER_SIGNS for sign in name)


def names_of(locale: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is named, such as `territory DK`, and its name in this language."""
    for kind, table in (("territory", "territories"), ("language", "languages"), ("currency", "currency_names")):
        yield from ((f"{kind} {code}", name) for code, name in locale[table].items() if isinstance(name, str))
    yield from ((f"city {code}", zone["city"]) for code, zone in locale["time_zones"].items() if "city" in zone)


def tidy_names(locale: dict[str, Any]) -> dict[str, str]:
    """name -> the first thing that has it, of those names that are plain."""
    names: dict[str, str] = {}
    for thing, name in sorted(names_of(locale)):
        tidy = " ".join(name.translate(SIGNS).split())
        if is_plain(tidy):
            names.setdefault(tidy, thing)
    return names


def compact(locales: dict[str, dict[str, Any]]) -> str:
    """A line for each name: its language's code, what it names, the name, with tabs between them."""
    names = {code: tidy_names(locale) for code, locale in locales.items()}
    written_in = Counter(name.casefold() for each in names.values() for name in each)
    lines = []
    for code, each in names.items():
        for name, thing in sorted(each.items(), key=lambda item: (item[1], item[0])):
            if written_in[name.casefold()] == 1:
                lines.append(f"{code}\t{thing}\t{name}\n")
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.make_languages", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel of babel was unpacked")
    sys.path.insert(0, str(parser.parse_args().folder))
    localedata = importlib.import_module("babel.localedata")
    text = compact({code: localedata.load(code) for code in LANGUAGES})
    NAMES.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{NAMES.name}: {text.count(chr(10)):,} names, {NAMES.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

"""From the hand-written sources to what students get: `build` makes the notebooks, `assignment` what a class makes
of them, `release` what it gets, `wheel` the package for instructors. `adopt` moves the course to another repository.

`bootstrap` is their first cell, `glossary` their terms, `minutes` their length, `coverage` what of the source articles
they teach; `claims` proves what the text says about its outputs.
"""

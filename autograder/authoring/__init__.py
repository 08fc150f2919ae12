"""From the hand-written sources to what students get: `build` makes the notebooks, `release` an assignment of them.

`bootstrap` is their first cell, `glossary` their terms, `minutes` their length, `coverage` what of the source articles
they teach; `claims` proves what the text says about its outputs.
"""

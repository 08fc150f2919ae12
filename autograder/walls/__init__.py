"""Around student code: `inside` runs beside it, everything else here on the trusted side.

`warm` is the process that runners are forked from, `runners` asks them, many questions at once where `foresight` knows
them, and `sight` proves what they cannot see.
"""

"""The course's grader: from the sources of the notebooks to grades, feedback and a report on the class.

`build`       makes the notebooks from solutions/; `bootstrap` their first cell
`working_copy`  the student's own copy of the notebooks; `files` writes what commands write, and keeps what people made
`hidden`      how the cases that only the grader runs are made; `seed` the class's own secret that they come from
`cli`         the commands: python -m autograder --help
`course`      the course folder, as nbgrader knows it; `release` fills it; `errors` what an instructor is told
`collect`     places what came from an LMS
`rebuild`     a submission, rebuilt from the instructor's cells and the student's text
`inside`      what runs behind the walls, beside student code
`warm`        the process that runners are forked from; `runners` asks them
`sight`       what student code must not see, and the proof that it does not
`references`  what of course_lib a runner may see; `needed` which demonstrations it has to run
`judge`       drives a runner through a submission; `verdict` is what comes out
`work`        the judging of one submission as a function of plain data, done anywhere
`grade`       plans, hands out the work and writes the results; `book` into nbgrader's gradebook, `cluster` over Dask
`nbgrader_judge`  the same judge behind formgrader's button
`feedback`    pages for students; `report` a page for the instructor, with `similar` answers; `export` for the LMS
`sample`      a fictitious class, made of the exercises' own misconceptions; `answers` writes them as students would
"""

import sys

# nbformat imports jsonschema, and jsonschema, where it finds this package, has it build a parser for web addresses: a
# second at every start, and nothing here has use for it.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

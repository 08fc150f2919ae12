"""From one submission to its verdict, as a function of plain data that can be computed anywhere: `work`.

`rebuild` puts the student's text into the instructor's notebook, `needed` finds the demonstrations that it depends on,
`references` what of course_lib it may see. `judge` drives a runner through it, and `verdict` is what comes out.
`foreseen` knows what a right answer will be asked, so that many questions can be sent together.
`ready_made` reads from an answer's source, with `statements` and `attributes`, whether it uses what its exercise
forbids; `nbgrader_judge` puts the same judge behind formgrader's button.
"""

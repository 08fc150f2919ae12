"""The check engine: exercises, the subjects they are asked of, and the reports that come back.

`exercise`   what an exercise is: its properties, misconceptions and alternatives
`bench`      where the student's object lies, and what has to run beside it
`subject`    the student's object, asked in plain data
`settings`   models and optimisers for exercises that train
`expect`     what a property says when it is not satisfied
`difference` how two results differ, in words and as a picture
`grading`    runs the properties and makes the report
`diagnosis`  finds the misconception behind a wrong answer
`ours`       what our own programs answer, asked sparingly
`twins`      modules that are copied and not built again
`merge`      makes one program with two mistakes out of two programs with one each
`report`     what the student sees
`record`     what was tried, kept in one local file
`devices`    whether a module would work on another device
`weights`    the ways in which students pack the same parameters
`parts`      which of a student's parameters is which, in layers and stacks
"""

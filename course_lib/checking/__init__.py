"""The check engine: exercises, the subjects they are asked of, and the reports that come back.

`exercise`   what an exercise is: its properties, misconceptions and alternatives
`subject`    the student's object, asked in plain data
`expect`     what a property says when it is not satisfied
`difference` how two results differ, in words and as a picture
`grading`    runs the properties and makes the report
`diagnosis`  finds the misconception behind a wrong answer
`merge`      makes one program with two mistakes out of two programs with one each
`report`     what the student sees
`record`     what was tried, kept in one local file
`devices`    whether a module would work on another device
`weights`    the ways in which students pack the same parameters
"""

"""The check engine: exercises, the subjects they are asked of, and the reports that come back.

`exercise`   what an exercise is: its properties, misconceptions and alternatives
`bench`      where the student's object lies, and what has to run beside it
`subject`    the student's object, asked in plain data
`memory`     what an object has answered already, so that a diagnosis need not ask it again
`inputs`     arguments for cases: tensors, masks, and functions that can be sent to another process
`settings`   models and optimisers for exercises that train
`expect`     what a property says when it is not satisfied
`difference` how two results differ, in words and as a picture
`properties` runs the properties and keeps the answers
`grading`    makes the report
`written_test` the other kind of exercise: a test to write, tried on the answers to another exercise
`tried`      tries such a test, and says what it missed
`disguise`   implementations that can be told apart at a glance only by their behaviour
`programs`   an implementation as text, to be made beside the student's code
`sources`    what the names in a program are
`diagnosis`  finds the mistake behind a wrong answer
`variants`   the reference under one small change; `changes` has the kinds of change and their words
`signature`  a program's behaviour in a few numbers
`index`      the signatures of all known mistakes, kept in a file
`mutation`   what a check says about every variant of its reference
`ours`       what our own programs answer, asked sparingly
`twins`      modules that are copied and not built again
`merge`      makes one program with two mistakes out of two programs with one each
`report`     what the student sees
`errors`     common errors in plain words
`patience`   ends a student's endless code
`record`     what was tried, kept in one local file; `overview` what is done, notebook by notebook
`devices`    whether a module would work on another device
`weights`    the ways in which students pack the same parameters
`parts`      which of a student's parameters is which, in layers and stacks
"""

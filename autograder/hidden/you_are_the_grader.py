"""Hidden cases on testing. For a test to write there is nothing to make: it meets all mistakes, in new disguises."""

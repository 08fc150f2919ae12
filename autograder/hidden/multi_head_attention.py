"""Multi head attention."""

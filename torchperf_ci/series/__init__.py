"""Time series of one metric each, read from records or from the store: the input of every judgement."""

"""Programs of others: started so that they can be ended, with all that they started themselves."""

"""Since which commit? A range of commits is confirmed to be slower, searched, and each culprit proven on its own."""

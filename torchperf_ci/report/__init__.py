"""``torchperf report``: publish verdicts and culprits as a summary, a comment, issues or a page."""

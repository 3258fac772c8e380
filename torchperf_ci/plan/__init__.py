"""``torchperf plan``: what runs where, and what of what has regressed is bisected tonight?"""
